"""Files in a folder of the object store: which there are, and whether one is still the same."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator

from trace_platform.domain.errors import CorruptFile, InvalidPrefix
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


class Utf8:
    """Looks at the bytes of a file in their order: Spark would put signs in the place of others."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def look(self, chunk: bytes, *, last: bool = False) -> None:
        try:
            self._decoder.decode(chunk, last)
        except UnicodeDecodeError:
            raise CorruptFile(
                f"{self._name} is not UTF-8",
                hint="write it as UTF-8, such as with iconv -f latin1 -t utf-8; until then its "
                "rows of before are read",
            ) from None


def digest_of(
    store: ObjectStore, uri: str, check: Callable[[], None], text: Utf8 | None = None
) -> str | None:
    """The SHA-256 of its content; None when it is not there any more. Raise CorruptFile where it
    should be text and is none."""
    filesystem, path = store.filesystem(uri)
    digest = hashlib.sha256()
    try:
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                check()
                digest.update(chunk)
                if text is not None:
                    text.look(chunk)
    except FileNotFoundError:
        return None
    if text is not None:
        text.look(b"", last=True)
    return digest.hexdigest()


def stamp_of(store: ObjectStore, uri: str) -> Stamp:
    filesystem, path = store.filesystem(uri)
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns
