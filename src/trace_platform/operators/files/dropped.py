"""Files in a folder of the object store: which there are, and whether one is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from trace_platform.domain.errors import InvalidPrefix
from trace_platform.domain.prefix import canonical_prefix
from trace_platform.drivers.object_store import ObjectStore

_CHUNK_BYTES = 4 * 2**20
# A file's name is the key of the partition that it becomes.
_MAX_NAME = 256

# Size and time of change: while both are the same, so is the content.
Stamp = tuple[int | None, int | None]


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
    """The SHA-256 of its content; None when it is not there any more."""
    filesystem, path = store.filesystem(uri)
    digest = hashlib.sha256()
    try:
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                check()
                digest.update(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def stamp_of(store: ObjectStore, uri: str) -> Stamp:
    filesystem, path = store.filesystem(uri)
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns
