"""The answers to one question, call by call, from as many providers as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_platform.rpc.answers import Item, is_batch, joined, parsed, places_of, raw_items
from trace_platform.rpc.calls import Call, Question, may_be_missing
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.reply import Reply


class Gathered:
    """What was said so far. Of a call that nobody could answer the best excuse is kept: that
    nothing is there rather than an error, an error rather than a method that is not there."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._said: dict[int, bytes] = {}
        self._excuses: dict[int, tuple[int, bytes]] = {}
        # Who said that nothing is there.
        self._lacking: dict[int, list[Provider]] = {}

    @property
    def is_untouched(self) -> bool:
        return not self._said and not self._excuses

    @property
    def open(self) -> list[int]:
        """Calls that another provider may answer, or answer better."""
        return [i for i in range(len(self._question)) if i not in self._said]

    @property
    def unanswered(self) -> list[int]:
        return [i for i in self.open if i not in self._excuses]

    def call(self, i: int) -> Call:
        return self._question.calls[i]

    def part(self, indexes: Sequence[int]) -> Question:
        is_all = len(indexes) == len(self._question)
        return self._question if is_all else self._question.only(indexes)

    def take(self, indexes: Sequence[int], reply: Reply) -> None:
        """The answers to the part with these calls."""
        raws = raw_items(reply.body)
        for i, item, place in zip(indexes, reply.items, reply.places, strict=True):
            if item is None or place is None:
                continue
            if excuse := weight(self.call(i).method, item):
                self._excuse(i, excuse, raws[place], reply.provider)
            else:
                self._said[i] = raws[place]

    def settle(self, indexes: Sequence[int], body: bytes) -> None:
        """The last word on these calls."""
        part, items = self.part(indexes), parsed(body)
        raws = raw_items(body)
        places = places_of(part, items, is_list=is_batch(body))
        for i, place in zip(indexes, places, strict=True):
            assert place is not None
            self._said[i] = raws[place]

    def found_elsewhere(self) -> Iterator[tuple[Call, Provider]]:
        """Calls that were answered, and who had said that there is nothing."""
        for i, providers in self._lacking.items():
            if i in self._said:
                yield from ((self.call(i), each) for each in providers)

    def reply(self) -> Reply:
        """Every call has an answer, or an excuse."""
        excuses = {i: raw for i, (_, raw) in self._excuses.items()}
        answers = [(excuses | self._said)[i] for i in range(len(self._question))]
        return Reply(joined(answers) if self._question.batch else answers[0])

    def _excuse(self, i: int, excuse: int, raw: bytes, provider: Provider | None) -> None:
        if excuse > self._excuses.get(i, (0, b""))[0]:
            self._excuses[i] = excuse, raw
        if provider is not None and excuse == NOTHING_THERE:
            self._lacking.setdefault(i, []).append(provider)


# Excuses; the highest tells most.
_NO_METHOD, _NO_DATA, NOTHING_THERE = 1, 2, 3


def weight(method: str, item: Item) -> int:
    """0 for an answer, else which excuse it is."""
    if item.error is not None:
        if not item.error.is_missing:
            return 0
        return _NO_METHOD if item.error.is_missing_method else _NO_DATA
    return NOTHING_THERE if item.is_null and may_be_missing(method) else 0
