"""ObjectStore on a local directory: `s3://bucket/key` is `root/bucket/key`."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileSystem, LocalFileSystem

from trace_platform.domain.errors import DiskFull, NotFound, Unavailable
from trace_platform.domain.prefix import canonical_prefix, parse_uri

# A disk or a mount that does not answer, or was made read-only because it failed.
_AWAY = frozenset(
    {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EROFS}
)


@dataclass(frozen=True, slots=True)
class LocalStore:
    root: str

    def put(self, uri: str, body: bytes) -> None:
        target = self._path(uri)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with _named_failures(uri):
                target.parent.mkdir(parents=True, exist_ok=True)
                with partial.open("wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                partial.rename(target)
                self._sync_folders(target.parent)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise

    def get(self, uri: str) -> bytes:
        try:
            with _named_failures(uri):
                return self._path(uri).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no object {uri}") from None

    def size(self, uri: str) -> int | None:
        try:
            return self._path(uri).stat().st_size
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> Iterator[str]:
        base = self._path(canonical_prefix(prefix))
        for path in sorted(base.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield prefix + path.relative_to(base).as_posix()

    def delete_prefix(self, prefix: str) -> int:
        base = self._path(canonical_prefix(prefix))
        found = sum(1 for _ in self.list(prefix))
        # Folders go along, and what a put or a writer that died left half-written. Another may
        # delete the same: then the rest is tried again.
        while base.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(base)
        return found

    def filesystem(self, uri: str) -> tuple[FileSystem, str]:
        return LocalFileSystem(), str(self._path(uri))

    def _sync_folders(self, folder: Path) -> None:
        """An object survives a power cut, and so does what others wrote beside it before: a name is
        on disk once its folder is, and that one's name in the folder above."""
        for each in (folder, *folder.parents):
            opened = os.open(each, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
            if each == Path(self.root):
                return

    def _path(self, uri: str) -> Path:
        bucket, key = parse_uri(uri)
        return Path(self.root, bucket, key)


@contextmanager
def _named_failures(uri: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left to write {uri}", hint="free some space") from error
        if error.errno in _AWAY:
            raise Unavailable(
                f"the store does not answer for {uri}: {error.strerror}",
                hint="is its disk mounted, and well?",
                outage=True,
            ) from error
        raise
