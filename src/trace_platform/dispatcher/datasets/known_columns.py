"""The columns of a dataset, as far as commits or the writer of a table said them."""

from __future__ import annotations

from trace_platform.drivers.postgres.queries import Row
from trace_platform.wire.manifest import ManifestColumn


def said_columns(described: Row) -> list[ManifestColumn]:
    """Of a row of `query_datasets.described`: what the commits say. Empty: nothing yet."""
    return [ManifestColumn.model_validate(column) for column in described["columns"] or ()]


def known_columns(described: Row) -> list[ManifestColumn]:
    """As `said_columns`; of a table what its writer says, if it does."""
    return said_columns({"columns": described["table_columns"] or described["columns"]})
