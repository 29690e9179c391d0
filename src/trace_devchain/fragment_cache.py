"""Rendered fragments, the least recently used ones dropped when they take too many bytes."""

from __future__ import annotations

from collections import OrderedDict

from trace_devchain.render import Fragment

# What a key, a dictionary entry and the spans of a fragment take beside its body.
_OVERHEAD_BYTES = 400
_SPAN_BYTES = 150


class FragmentCache:
    """Keys name a block by hash, so a reorg needs no invalidation: old entries age out."""

    def __init__(self, max_bytes: int | None) -> None:
        """`max_bytes=None` keeps everything."""
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, Fragment] = OrderedDict()
        self.bytes = 0

    def get(self, key: bytes) -> Fragment | None:
        fragment = self._entries.get(key)
        if fragment is not None:
            self._entries.move_to_end(key)
        return fragment

    def put(self, key: bytes, fragment: Fragment) -> None:
        """`key` must be new. The newest fragment stays even if it alone is over the limit."""
        self._entries[key] = fragment
        self.bytes += _cost(fragment)
        if self._max_bytes is None:
            return
        while self.bytes > self._max_bytes and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            self.bytes -= _cost(dropped)

    def keep_everything(self) -> None:
        self._max_bytes = None


def _cost(fragment: Fragment) -> int:
    spans = len(fragment.spans) + len(fragment.logs)
    return len(fragment.body) + _SPAN_BYTES * spans + _OVERHEAD_BYTES
