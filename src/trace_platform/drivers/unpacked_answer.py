"""An answer of somebody else's server, unpacked piece by piece: few bytes may stand for many."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import httpx

_PIECE_BYTES = 2**16


def unpacked(response: httpx.Response) -> Iterator[bytes]:
    """Small pieces. Raise DecodingError for what is damaged, cut, or packed as nobody asked: twice,
    or otherwise than gzip."""
    told = response.headers.get("content-encoding", "").strip().lower()
    if told in ("", "identity"):
        return response.iter_raw(_PIECE_BYTES)
    if told == "gzip":
        return _gunzipped(response.iter_raw(_PIECE_BYTES))
    raise httpx.DecodingError("it is packed as nobody asked")


def _gunzipped(packed: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    began = False
    for part in packed:
        began = True
        yield from _pieces(unpacker, part)
    if began and not unpacker.eof:
        raise httpx.DecodingError("it is cut")


def _pieces(unpacker: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    piece = b""
    while not unpacker.eof and (packed or len(piece) == _PIECE_BYTES):
        try:
            piece = unpacker.decompress(packed, _PIECE_BYTES)
        except zlib.error:
            raise httpx.DecodingError("it is damaged") from None
        packed = unpacker.unconsumed_tail
        yield piece
