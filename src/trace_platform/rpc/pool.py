"""A pool: its providers, the head that most of them back, and who is asked next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from trace_platform.rpc.calls import Needs, Question
from trace_platform.rpc.config import PoolConfig, Timing
from trace_platform.rpc.provider import Provider

T = TypeVar("T")

# Blocks this close to the head may still be replaced: one provider is asked for all of them.
NEAR_TIP = 64
# New blocks do not reach everybody at once; who is further ahead is not believed.
MAX_LEAD = 3


@dataclass(slots=True, eq=False)
class Pool:
    name: str
    providers: tuple[Provider, ...]
    timing: Timing
    clock: Callable[[], float]
    # What the settings say, or what the providers agree on.
    chain_id: int | None = None
    # The newest block that most healthy providers have.
    head: int | None = None
    last_asked: float = 0.0
    # Whom questions about the tip go to as long as it keeps up.
    leader: Provider | None = None
    _head_at: float = 0.0
    _fixed_chain: int | None = field(init=False, default=None)

    @classmethod
    def of(cls, config: PoolConfig, timing: Timing, clock: Callable[[], float]) -> Pool:
        providers = tuple(Provider(each, timing, clock) for each in config.providers)
        pool = cls(config.name, providers, timing, clock, config.chain_id)
        pool._fixed_chain = config.chain_id
        pool.last_asked = clock()
        return pool

    @property
    def healthy(self) -> list[Provider]:
        return [each for each in self.providers if each.healthy]

    @property
    def alone(self) -> bool:
        return len(self.providers) == 1

    @property
    def cares_for_chain(self) -> bool:
        return self._fixed_chain is not None or not self.alone

    def candidates(self, needs: Needs, question: Question | None = None) -> list[Provider]:
        """Who may answer now, the best first. Nobody, rather than one that is behind; who is known
        to lack what is asked for comes last."""
        fit = [each for each in self.providers if each.ready and self._fits(each, needs)]
        fit.sort(key=_rank)
        if self.is_near_tip(needs):
            fit = self._leader_first(fit)
        if question is not None and any(each.learned for each in fit):
            oldest = question.oldest
            fit.sort(key=lambda each: each.learned.doubts(oldest))
        return fit

    def others_that_have(self, needs: Needs, asked: set[str]) -> list[Provider]:
        """Who may have what those that were asked do not. A block beyond every head is asked for
        once: nobody has it yet."""
        return [
            each
            for each in self.candidates(needs)
            if each.name not in asked
            and (each.head.number is None or each.head.number >= needs.block)
        ]

    def last_resort(self, needs: Needs) -> list[Provider]:
        """When nobody is ready: those whose health alone is in doubt. They may be back."""
        fit = [each for each in self.providers if each.may_be_asked and self._fits(each, needs)]
        return sorted((each for each in fit if not each.ready), key=lambda each: each.resting_s)

    def voters(self) -> list[Provider]:
        """Whose word counts when providers have to agree: of those that can be asked. Who is left
        out cannot keep the others from agreeing."""
        return [each for each in self.providers if each.ready and not each.stalled]

    def limited_voters(self) -> list[Provider]:
        """Whose word counts too, and who want to be left alone now: those that are left are not
        most of the pool because of that."""
        return [
            each for each in self.healthy if not each.ready and each.limited_s and not each.stalled
        ]

    def lag(self, provider: Provider) -> int | None:
        if self.head is None or provider.head.number is None:
            return None
        return max(0, self.head - provider.head.number)

    def learned_head(self, provider: Provider, number: int) -> None:
        """From an answer that passed by. What most back is only told by a look at all of them."""
        provider.head.learn(number, self.clock())
        if self.alone:
            self.head = number

    def claims_to_check(self) -> list[tuple[Provider, Provider]]:
        """Of two providers, who is far ahead, and of whom: either one lags or the other invents.

        Among three or more, what most say decides.
        """
        known = sorted(self._known(), key=lambda each: each.head.number or 0)
        if len(known) != 2 or (known[1].head.number or 0) <= (known[0].head.number or 0) + MAX_LEAD:
            return []
        return [(known[1], known[0])]

    def settle_head(self, confirmed: Collection[Provider] = ()) -> None:
        """After a look at every provider: the highest block that more than half of them have, or
        that one was seen to have on top of what the other one of two has."""
        now = self.clock()
        self._mark_stalled(now)
        known = self._known()
        if known:
            numbers = sorted((each.head.number or 0 for each in known), reverse=True)
            proven = [each.head.number or 0 for each in known if each in confirmed]
            backed = max([numbers[len(numbers) // 2], *proven])
            self._move_head(backed, len(known), now)
        limit = (self.head or 0) + MAX_LEAD
        for each in self.providers:
            each.runs_ahead = not self.alone and (each.head.number or 0) > limit

    def _known(self) -> list[Provider]:
        """Also one that limits the rate: for a moment it still has the head that it told of."""
        return [each for each in self.healthy if not each.stalled and each.head.number is not None]

    def _move_head(self, backed: int, voters: int, now: float) -> None:
        back = self.head is not None and backed < self.head
        minority = 2 * voters <= len(self.providers)
        if back and minority and now - self._head_at < self.timing.hold_s:
            return  # those that are left do not take back what more of them said
        if backed != self.head:
            self.head, self._head_at = backed, now

    def settle_chain(self) -> None:
        """Exclude who serves another chain than the settings say, or than most do. Where most do
        not serve one chain, exclude all: rows of two chains must not mix."""
        self.chain_id = self._fixed_chain or _most_common(
            [each.chain_id for each in self.providers if each.chain_id is not None]
        )
        for each in self.providers:
            each.excluded = None
            if each.chain_id not in (None, self.chain_id):
                right = self.chain_id or "one that most serve: set the pool's chain_id"
                each.excluded = f"it serves chain {each.chain_id}, not {right}"

    def settle_hashes(
        self, hashes: Mapping[str, str], judged: Collection[Provider] | None = None
    ) -> None:
        """`hashes`: of one block some way below the head, by provider. Who of the judged differs
        from most is not asked, until it does not differ any more. One alone is not most, and of who
        is not among them nothing new is known."""
        told = [each for each in self.providers if each.name in hashes]
        if len(told) < 2:
            return
        most = _most_common(list(hashes.values())) or hashes[min(told, key=self._doubt).name]
        for each in told:
            if judged is None or each in judged:
                each.contradicts = hashes[each.name] != most

    def _doubt(self, provider: Provider) -> tuple[object, ...]:
        """Whose word stands where there is no majority: the leader's, while it keeps up."""
        doubts = provider.stalled, provider.contradicts, provider.runs_ahead
        return *doubts, provider is not self.leader, *_rank(provider)

    def _fits(self, provider: Provider, needs: Needs) -> bool:
        if self.alone:
            return True
        recent = self.is_near_tip(needs) or needs.hashes
        if recent and provider.runs_ahead:
            return False
        head = provider.head.number
        if head is None or self.head is None:
            # Nothing is known yet: better than no answer at all.
            return not needs.tip or all(each.head.number is None for each in self.healthy)
        if (needs.tip or needs.hashes) and head < self.head:
            return False
        # A block beyond the pool's head: who is at the head says best that it is not there yet.
        return head >= min(needs.block, self.head)

    def is_near_tip(self, needs: Needs) -> bool:
        return needs.tip or (self.head is not None and needs.block > self.head - NEAR_TIP)

    def _leader_first(self, fit: list[Provider]) -> list[Provider]:
        if not fit:
            return fit
        if self.leader not in fit:
            self.leader = fit[0]
        return sorted(fit, key=lambda each: each is not self.leader)

    def _mark_stalled(self, now: float) -> None:
        """A head that stands still while another one moved twice since. One alone never stalls."""
        for each in self.providers:
            still_s = now - each.head.moved_at
            others_move = any(
                other.on_chain
                and other is not each
                and other.head.moves >= 2
                and other.head.moved_at > each.head.moved_at + self.timing.stall_s / 2
                for other in self.providers
            )
            each.stalled = (
                each.head.number is not None and still_s > self.timing.stall_s and others_move
            )


def _rank(provider: Provider) -> tuple[bool, int, float, float]:
    """The preferred one, unless questions queue there."""
    wait_s, load = provider.rate.wait_s(), provider.slots.load
    return wait_s > 1.0 or load >= 2.0, provider.config.priority, wait_s, load


def _most_common(values: list[T]) -> T | None:
    """What more than half of them say."""
    return next((value for value in set(values) if 2 * values.count(value) > len(values)), None)
