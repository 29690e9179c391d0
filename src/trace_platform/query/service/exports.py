"""Results as files in the object store, each for its caller and for a day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from pyarrow import NativeFile
from pyarrow.fs import FileSystem

from trace_platform.domain.errors import NotFound
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.query.service.disk_full import disk_full
from trace_platform.query.service.spool import Spool

KEPT = timedelta(days=1)
# Of one caller.
_MOST = 100
_CALLER = re.compile(r"[a-z0-9_-]{1,128}")


class Exports:
    """Blocking: for a thread."""

    def __init__(self, store: ObjectStore, bucket: str, max_bytes: int = 4 << 30) -> None:
        """`max_bytes` of one caller."""
        self._store, self._bucket, self._max_bytes = store, bucket, max_bytes

    def keep(self, caller: str, answer_id: UUID, spool: Spool) -> datetime:
        """Write the spool's bytes. Until when they are there: a day, unless the caller keeps
        more than there may be of one, and the oldest give way. What fails leaves no file."""
        self._make_room(caller, spool.size)
        filesystem, path = self._store.filesystem(self._uri(caller, answer_id))
        partial = f"{path}.partial"
        with disk_full("an export"):
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            try:
                with filesystem.open_output_stream(partial) as target:
                    for part in spool.read():
                        target.write(part)
                filesystem.move(partial, path)
            except BaseException:
                _delete(filesystem, partial)
                raise
        return datetime.now(UTC) + KEPT

    def open(self, caller: str, answer_id: UUID) -> tuple[NativeFile, int]:
        """A stream of the file, and its length."""
        uri = self._uri(caller, answer_id)
        size = self._store.size(uri)
        if size is None:
            raise NotFound(
                f"there is no export {answer_id}", hint="an export is kept for a day: run it again"
            )
        filesystem, path = self._store.filesystem(uri)
        return filesystem.open_input_stream(path), size

    def _make_room(self, caller: str, size: int) -> None:
        found = []
        for uri in self._store.list(f"s3://{self._bucket}/exports/{caller}/"):
            filesystem, path = self._store.filesystem(uri)
            info = filesystem.get_file_info(path)
            found.append((info.mtime_ns or 0, info.size or 0, filesystem, path))
        found.sort(key=lambda each: each[0])
        held = sum(each[1] for each in found)
        while found and (held + size > self._max_bytes or len(found) >= _MOST):
            _, freed, filesystem, path = found.pop(0)
            _delete(filesystem, path)
            held -= freed

    def sweep(self) -> int:
        """Delete what is older than a day. How many."""
        gone, oldest = 0, datetime.now(UTC) - KEPT
        for uri in list(self._store.list(f"s3://{self._bucket}/exports/")):
            filesystem, path = self._store.filesystem(uri)
            made = filesystem.get_file_info(path).mtime
            if made is not None and made < oldest:
                gone += _delete(filesystem, path)
        return gone

    def _uri(self, caller: str, answer_id: UUID) -> str:
        assert _CALLER.fullmatch(caller), "callers are named by us"
        return f"s3://{self._bucket}/exports/{caller}/{answer_id}.parquet"


def _delete(filesystem: FileSystem, path: str) -> bool:
    """False: another was faster."""
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        return False
    return True
