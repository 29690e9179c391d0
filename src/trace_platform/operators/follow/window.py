"""The hashes of the newest blocks that are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Window:
    """The newest `keep` blocks, without a hole."""

    def __init__(self, keep: int, newest_first: Iterable[tuple[int, bytes]] = ()) -> None:
        self._keep = keep
        self._first = 0
        self._hashes: list[bytes] = []
        self.replace(_unbroken(newest_first))

    @property
    def last(self) -> int | None:
        return self._first + len(self._hashes) - 1 if self._hashes else None

    @property
    def last_hash(self) -> bytes | None:
        return self._hashes[-1] if self._hashes else None

    @property
    def oldest(self) -> int | None:
        return self._first if self._hashes else None

    def get(self, number: int) -> bytes | None:
        place = number - self._first
        return self._hashes[place] if 0 <= place < len(self._hashes) else None

    def replace(self, hashes: Sequence[tuple[int, bytes]]) -> None:
        """These stand for all that was known from the first of them on."""
        if not hashes:
            return
        start = hashes[0][0]
        kept = self._hashes[: max(start - self._first, 0)]
        if self._first + len(kept) != start:
            kept = []  # older than all that is known
        known = [*kept, *(block_hash for _, block_hash in hashes)]
        self._hashes = known[-self._keep :]
        self._first = hashes[-1][0] + 1 - len(self._hashes)


def _unbroken(newest_first: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for number, block_hash in newest_first:
        if found and number != found[-1][0] - 1:
            break
        found.append((number, block_hash))
    return found[::-1]
