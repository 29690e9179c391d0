"""A file in a folder, by its name and its content: the key of the partition that it becomes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trace_platform.domain.errors import InvalidConfig, InvalidPrefix
from trace_platform.domain.prefix import canonical_prefix
from trace_platform.drivers.object_store import ObjectStore

_CHUNK_BYTES = 4 * 2**20
_DIGITS = 16
_KEY = re.compile(rf"(?P<name>.+)@(?P<digest>[0-9a-f]{{{_DIGITS}}})")
# A partition's key has 256 characters.
_MAX_NAME = 256 - 1 - _DIGITS


@dataclass(frozen=True, slots=True)
class Dropped:
    """What lay there under a name."""

    name: str
    digest: str

    @property
    def key(self) -> str:
        return f"{self.name}@{self.digest}"

    @classmethod
    def of_key(cls, key: str) -> Dropped:
        match = _KEY.fullmatch(key)
        if match is None:
            raise InvalidConfig(
                f"partition {key!r} is no file: NAME@DIGEST is wanted",
                hint="feed the job from a file_watch",
            )
        return cls(match["name"], match["digest"])


def folder_uri(folder: str) -> str:
    """With a slash at its end. Raise ValueError for what no store has."""
    try:
        return canonical_prefix(folder if folder.endswith("/") else f"{folder}/")
    except InvalidPrefix as error:
        raise ValueError(error.message) from None


def names_in(store: ObjectStore, folder: str, suffix: str) -> Iterator[str]:
    """Of files that end so, below the folder, in order; those that are hidden are being written."""
    for uri in store.list(folder):
        name = uri.removeprefix(folder)
        hidden = any(part.startswith((".", "_")) for part in name.split("/"))
        if name.endswith(suffix) and not hidden and len(name) <= _MAX_NAME:
            yield name


def digest_of(store: ObjectStore, uri: str, check: Callable[[], None]) -> str | None:
    """Of its content; None when it is not there any more."""
    filesystem, path = store.filesystem(uri)
    digest = hashlib.sha256()
    try:
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                check()
                digest.update(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest()[:_DIGITS]


def stamp_of(store: ObjectStore, uri: str) -> tuple[int | None, int | None]:
    """Size and time of change: while both are the same, so is the content."""
    filesystem, path = store.filesystem(uri)
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns
