"""What a DAG declares of a dataset is a promise to its readers: commits that break it are
refused."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.dag.model.declared_columns import misfits
from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets
from trace_platform.state.datasets import DeclaredDataset
from trace_platform.wire.manifest import Manifest, ManifestColumn
from trace_platform.wire.task import OutputCommit

_MOST_SAID = 5


def refuse_unfit_files(
    declared: Sequence[DeclaredDataset], columns: Sequence[ManifestColumn], manifest: Manifest
) -> None:
    """Raise IncompatibleSchema when these are not the columns, or files not the place, that one of
    the DAG's versions declares."""
    for said in declared:
        if said.storage == "postgres":
            raise IncompatibleSchema(
                f"'{said.name}' is declared with storage: postgres, and the commit is files",
                hint="write storage: parquet in the DAG's file, or have the job write a table",
            )
        if said.schema is not None and not columns and manifest.rows:
            raise IncompatibleSchema(
                f"the commit does not say its columns, and '{said.name}' declares a schema",
                hint="write `columns` into the manifest, or leave `schema` out of the DAG's file",
            )
        if columns or manifest.rows:
            _refuse(said, columns)


async def refuse_unfit_tables(tx: Tx, tables: Sequence[OutputCommit]) -> None:
    """The same of tables, whose writers say their columns when they are new."""
    saying = {table.dataset_version: table for table in tables if table.columns}
    declared = await datasets.declared(tx, list(saying)) if saying else {}
    for version, table in saying.items():
        for said in declared.get(version, ()):
            _refuse(said, table.columns or ())


def _refuse(said: DeclaredDataset, columns: Sequence[ManifestColumn]) -> None:
    found = list(misfits(said.schema or {}, columns))
    if found:
        listed = "; ".join(map(str, found[:_MOST_SAID]))
        more = f"; and {len(found) - _MOST_SAID} more" if len(found) > _MOST_SAID else ""
        raise IncompatibleSchema(
            f"the commit is not what the schema of '{said.name}' declares: {listed}{more}",
            hint=f"change publish.{said.name}.schema in the DAG's file, or what the job writes",
            column=found[0].column,
        )
