"""`http_ingest` run tick after tick, as the worker runs it: what it commits, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.contract import Result
from trace_platform.operators.http.config import Config
from trace_platform.operators.http.http_ingest import HttpIngest
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.operator_state import StateResponse
from trace_platform.wire.task import OutputCommit, TaskInput

Row = dict[str, Any]


@dataclass
class Ingest:
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def tick(self, config: Config, *, again: bool = False) -> Result:
        """An attempt of its own; what it keeps is kept when it ends well."""
        made = operator_task(config, BlockRange(0, 0), self.folder, outputs=("rows", "rejected"))
        woken = TaskInput(
            input_index=0,
            dataset_uuid=uuid4(),
            dataset_version=uuid4(),
            cursor=1,
            invalidation=uuid4() if again else None,
        )
        task = replace(
            made,
            inputs=(woken,),
            state=lambda: dict(self.state),
            secret=self.secrets.__getitem__,
            log=self,
        )
        result = HttpIngest().run(task)
        # As it comes back out of the database.
        kept = StateResponse(state=dict(result.state)).model_dump(mode="json")["state"]
        self.state = {k: v for k, v in (self.state | kept).items() if v is not None}
        return result

    def rows(self, config: Config, *, again: bool = False) -> tuple[list[Row], list[Row]]:
        """Of a tick that commits: the rows, and those that were rejected."""
        rows, rejected = self.tick(config, again=again).outputs
        assert rows.partition_key == rejected.partition_key == "all"
        promised = config.columns()
        if promised is not None:
            for commit, columns in zip((rows, rejected), promised, strict=True):
                assert self._manifest(commit).columns == list(columns)
        return self._read(rows), self._read(rejected)

    def info(self, event: str, **facts: Any) -> None:
        self.log.append(f"{event} {facts}")

    warning = error = info

    def _manifest(self, commit: OutputCommit) -> Manifest:
        return Manifest.model_validate_json(self._path(commit, "_manifest.json").read_bytes())

    def _read(self, commit: OutputCommit) -> list[Row]:
        (file,) = self._manifest(commit).files
        rows: list[Row] = pq.read_table(self._path(commit, file.name)).to_pylist()
        assert len(rows) == commit.row_count
        return rows

    def _path(self, commit: OutputCommit, name: str) -> Path:
        return self.folder / commit.location.removeprefix("s3://") / name
