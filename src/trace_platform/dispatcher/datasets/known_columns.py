"""The columns of a dataset, as far as commits or the writer of a table said them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_platform.state.query_datasets import Described
from trace_platform.wire.manifest import ManifestColumn


def said_columns(columns: Sequence[Any] | None) -> list[ManifestColumn]:
    """As they are on record: what the commits say. Empty: nothing yet."""
    return [ManifestColumn.model_validate(column) for column in columns or ()]


def known_columns(described: Described) -> list[ManifestColumn]:
    """What the commits say; of a table what its writer says, if it does."""
    return said_columns(described.table_columns or described.columns)
