"""`file_watch`: says which files are in a folder of the object store, and which changed or went.

A file is a partition by its name. A new one is an event; one that has other content, or is gone,
is an invalidation, so that whoever read it reads it again and replaces its rows. What a file was
when it was told is kept with what was told: an attempt that takes over goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, ClassVar
from uuid import UUID, uuid5

from pydantic import Field, field_validator

from trace_platform.domain.errors import InvalidPrefix
from trace_platform.operators import scope
from trace_platform.operators.accepts import ONLY_A_SOURCE, PARTITION, RANGE, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.files.dropped import (
    Stamp,
    digest_of,
    folder_uri,
    names_in,
    stamp_of,
)
from trace_platform.wire.task import DatasetEvent, Invalidation, TaskOutput

# A directive is noticed within this.
_NAP_S = 0.2
_AT_ONCE = 1_000
# What is told of a file has its identity from the file's name and how often it was told.
_NAMESPACE = UUID("5d0c1f0e-70a5-4a3e-8b3c-6f1f0a5b7c21")


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


@dataclass(frozen=True, slots=True)
class Told:
    """A file as it was told; without a digest it was gone."""

    size: int | None
    mtime_ns: int | None
    digest: str | None
    # How often it was told: each change of it is another one.
    times: int = 1

    @property
    def stamp(self) -> Stamp:
        return self.size, self.mtime_ns

    @property
    def is_gone(self) -> bool:
        return self.digest is None


class FileWatch:
    name: ClassVar[str] = "file_watch"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("files",)
    accepts: ClassVar[Accepts] = ONLY_A_SOURCE
    emits: ClassVar[Updates | None] = PARTITION - RANGE
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        folder, looks = _Folder(task, config), 0
        while not task.draining() and looks != config.limit:
            folder.look()
            looks += 1
            self._wait(task, config.every_seconds if looks != config.limit else 0)
        return Result()

    def _wait(self, task: TaskContext, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not task.draining() and (left := until - time.monotonic()) > 0:
            task.check()
            time.sleep(min(left, _NAP_S))


class _Folder:
    def __init__(self, task: TaskContext, config: Config) -> None:
        self._task = task
        self._config = config
        self._output = scope.output(task, 0)
        self._told = {name: Told(**value) for name, value in task.state().items()}
        # Names that no store has, and files that may not be read: said once.
        self._refused: set[str] = set()
        # Not there at the last look. Whoever replaces a file may take it away first.
        self._missed: set[str] = set()

    def look(self) -> None:
        """Tell all that has changed, a part at a time: what was told is told once."""
        changes = self._changes()
        while part := dict(islice(changes, _AT_ONCE)):
            self._tell(part)

    def _tell(self, part: Mapping[str, Told]) -> None:
        new = [name for name in part if name not in self._told]
        again = [
            name
            for name in part
            if name in self._told and part[name].times != self._told[name].times
        ]
        self._task.emit(
            [_event(self._output, name) for name in new],
            [_invalidation(self._output, name, part[name]) for name in again],
            state={name: asdict(told) for name, told in part.items()},
        )
        self._told |= part
        if new or again:
            gone = sum(part[name].is_gone for name in again)
            self._task.log.info("files_found", new=len(new), changed=len(again) - gone, gone=gone)

    def _changes(self) -> Iterator[tuple[str, Told]]:
        found = set()
        for name in names_in(self._task.store, self._config.folder, self._config.suffix):
            self._task.check()
            found.add(name)
            if (told := self._as_it_is(name)) is not None:
                yield name, told
        missing = {name for name, told in self._told.items() if not told.is_gone} - found
        for name in sorted(missing & self._missed):
            yield name, Told(None, None, None, self._told[name].times + 1)
        self._missed = missing

    def _as_it_is(self, name: str) -> Told | None:
        """None: it is as it was told, or nothing can be told of it."""
        known, uri = self._told.get(name), self._config.folder + name
        try:
            size, mtime_ns = stamp_of(self._task.store, uri)
            if known is not None and not known.is_gone and known.stamp == (size, mtime_ns):
                return None
            # One that changes while it is read has another stamp at the next look.
            digest = digest_of(self._task.store, uri, self._task.check)
        except (InvalidPrefix, PermissionError) as error:
            # The others are told all the same.
            if name not in self._refused:
                self._task.log.warning("file_refused", file=name, reason=str(error))
            self._refused.add(name)
            return None
        if digest is None:
            return None
        if known is None:
            return Told(size, mtime_ns, digest)
        times = known.times + (known.digest != digest)
        return replace(known, size=size, mtime_ns=mtime_ns, digest=digest, times=times)


def _event(output: TaskOutput, name: str) -> DatasetEvent:
    return DatasetEvent(**_place(output), partition_key=name)


def _invalidation(output: TaskOutput, name: str, told: Told) -> Invalidation:
    return Invalidation(
        **_place(output),
        scope="partition",
        partition_key=name,
        reason=f"{name} is gone" if told.is_gone else f"{name} has other content",
        request_id=uuid5(_NAMESPACE, f"{name}/{told.times}"),
    )


def _place(output: TaskOutput) -> dict[str, Any]:
    return {"dataset_uuid": output.dataset_uuid, "dataset_version": output.dataset_version}
