"""The body of an answer, unpacked in small steps: a few packed bytes may stand for gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

_STEP_BYTES = 64 * 2**10
_GZIP = 31  # zlib's own number for a stream with gzip's head


class DamagedBody(Exception):
    """What arrived cannot be unpacked; the text says why."""


def unpack_body(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Raise DamagedBody for what is cut off, or packed in a way that nobody asked for: one packed
    twice cannot be unpacked in steps."""
    if encoding.strip().lower() in ("", "identity"):
        yield from chunks
    elif encoding.strip().lower() in ("gzip", "x-gzip"):
        yield from _unzipped(chunks)
    else:
        raise DamagedBody(f"is packed as {encoding[:40]!r}, and gzip was asked for")


def _unzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, began = zlib.decompressobj(_GZIP), False
    for chunk in chunks:
        began = began or bool(chunk)
        while chunk:
            if stream.eof:  # several streams, one behind the other, are one body
                stream = zlib.decompressobj(_GZIP)
            yield from _steps(stream, chunk)
            chunk = stream.unused_data if stream.eof else b""
    if began and not stream.eof:
        raise DamagedBody("ends within its gzip data")


def _steps(stream: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
    try:
        while found := stream.decompress(chunk, _STEP_BYTES):
            yield found
            chunk = stream.unconsumed_tail
    except zlib.error:
        raise DamagedBody("has damaged gzip data") from None
