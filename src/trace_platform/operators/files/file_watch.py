"""`file_watch`: says which files are in a folder of the object store, each content once.

It keeps nothing in mind: an attempt that takes over says everything again, and what was said before
is no news.
"""

from __future__ import annotations

import time
from typing import ClassVar

from pydantic import Field, field_validator

from trace_platform.domain.errors import InvalidPrefix
from trace_platform.operators import scope
from trace_platform.operators.accepts import ONLY_A_SOURCE, PARTITION, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.files.dropped import (
    Dropped,
    digest_of,
    folder_uri,
    names_in,
    stamp_of,
)
from trace_platform.wire.task import DatasetEvent, TaskOutput

# A directive is noticed within this.
_NAP_S = 0.2
_AT_ONCE = 1_000

Stamp = tuple[int | None, int | None]


class Config(OperatorConfig):
    folder: str = Field(
        min_length=1, description="Where files are put: s3://BUCKET/FOLDER/ of the object store."
    )
    suffix: str = Field(default="", max_length=64, description="Only files that end so: .csv.")
    every_seconds: float = Field(default=5, ge=0.1, description="How often it looks.")
    limit: int | None = Field(default=None, ge=1, description="Looks after which it ends.")

    @field_validator("folder")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        return folder_uri(value)


class FileWatch:
    name: ClassVar[str] = "file_watch"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("files",)
    accepts: ClassVar[Accepts] = ONLY_A_SOURCE
    emits: ClassVar[Updates | None] = PARTITION - RANGE
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        output, seen, looks = scope.output(task, 0), dict[str, Stamp](), 0
        while not task.draining() and looks != config.limit:
            found = _changed(task, config, seen)
            for start in range(0, len(found), _AT_ONCE):
                part = found[start : start + _AT_ONCE]
                new = task.emit([_event(output, dropped) for dropped in part])
                task.log.info("files_found", files=len(part), new=new)
            looks += 1
            self._wait(task, config.every_seconds if looks != config.limit else 0)
        return Result()

    def _wait(self, task: TaskContext, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not task.draining() and (left := until - time.monotonic()) > 0:
            task.check()
            time.sleep(min(left, _NAP_S))


def _changed(task: TaskContext, config: Config, seen: dict[str, Stamp]) -> list[Dropped]:
    """Those that this attempt has not seen as they are. A file that changes while it is read has
    another stamp at the next look."""
    found = []
    for name in names_in(task.store, config.folder, config.suffix):
        task.check()
        try:
            stamp = stamp_of(task.store, config.folder + name)
        except InvalidPrefix as error:
            if name not in seen:
                task.log.warning("file_refused", file=name, reason=error.message)
            seen[name] = (None, None)
            continue
        if seen.get(name) == stamp:
            continue
        digest = digest_of(task.store, config.folder + name, task.check)
        if digest is not None:
            found.append(Dropped(name, digest))
            seen[name] = stamp
    return found


def _event(output: TaskOutput, dropped: Dropped) -> DatasetEvent:
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid,
        dataset_version=output.dataset_version,
        partition_key=dropped.key,
    )
