"""Which version of an ABI is valid where, and which blocks a change touches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_platform.domain.abi_places import Place, StandsIn, Valid, changed, places
from trace_platform.domain.block_range import MAX_BLOCK, BlockRange

A, B = "0x" + "aa" * 20, "0x" + "bb" * 20
LAST = 12


def spans(found: list[Place]) -> list[tuple[str | None, int, int, str]]:
    return [(each.address, each.blocks.start, each.blocks.end, each.version) for each in found]


def test_a_version_is_valid_until_the_next_one_of_its_contract() -> None:
    found = places([Valid("v2", A, 50), Valid("v1", A, 10), Valid("any", None, 0)])
    assert spans(found) == [
        (None, 0, MAX_BLOCK, "any"),
        (A, 10, 49, "v1"),
        (A, 50, MAX_BLOCK, "v2"),
    ]


def test_a_proxy_has_its_implementations_versions_in_its_own_range_alone() -> None:
    valid = [Valid("v1", B, 0), Valid("v2", B, 30), Valid("own", A, 0)]
    found = places(valid, [StandsIn(A, B, 20, 39)])
    assert [each for each in spans(found) if each[0] == A] == [
        (A, 0, 19, "own"),
        (A, 20, 29, "v1"),
        (A, 30, 39, "v2"),
        (A, 40, MAX_BLOCK, "own"),
    ]


def test_an_upgrade_ends_the_implementation_before_it() -> None:
    valid = [Valid("v1", B, 0), Valid("v2", "0x" + "cc" * 20, 0)]
    proxies = [StandsIn(A, B, 10, None), StandsIn(A, "0x" + "cc" * 20, 20, None)]
    found = [each for each in spans(places(valid, proxies)) if each[0] == A]
    assert found == [(A, 10, 19, "v1"), (A, 20, MAX_BLOCK, "v2")]


def test_a_change_touches_what_is_decoded_otherwise_and_nothing_else() -> None:
    v1, v2, v3 = Valid("v1", A, 0), Valid("v2", A, 10), Valid("v3", A, 20)
    assert changed(places([v1, v3]), places([v1, v2, v3])) == [BlockRange(10, 19)]
    assert changed(places([v1]), places([v1])) == []
    # The same definitions once more, from a later block: nothing is decoded otherwise.
    assert changed(places([v1]), places([v1, Valid("v1", A, 10)])) == []


_CONTRACTS = st.sampled_from([None, A, B])
_VALID = st.lists(
    st.builds(Valid, st.sampled_from(["v1", "v2", "v3"]), _CONTRACTS, st.integers(0, LAST)),
    unique_by=lambda each: (each.address, each.from_block),
)
_PROXIES = st.lists(
    st.builds(
        lambda first, length: StandsIn(A, B, first, None if length is None else first + length),
        st.integers(0, LAST),
        st.none() | st.integers(0, LAST),
    ),
    unique_by=lambda each: each.from_block,
)


def _expected(
    valid: list[Valid], proxies: list[StandsIn], address: str | None, block: int
) -> str | None:
    """By the definition, block by block."""
    for proxy in sorted(proxies, key=lambda each: -each.from_block):
        if address == A and proxy.from_block <= block:
            if proxy.to_block is None or block <= proxy.to_block:
                by_implementation = _expected(valid, [], B, block)
                if by_implementation is not None:
                    return by_implementation
            break
    own = [each for each in valid if each.address == address and each.from_block <= block]
    return max(own, key=lambda each: each.from_block).version if own else None


@given(_VALID, _PROXIES)
def test_places_say_what_the_definition_says_of_every_block(
    valid: list[Valid], proxies: list[StandsIn]
) -> None:
    found = places(valid, proxies)
    for address in (None, A, B):
        for block in range(2 * LAST + 2):
            here = [
                each.version
                for each in found
                if each.address == address and each.blocks.start <= block <= each.blocks.end
            ]
            assert here == [v for v in [_expected(valid, proxies, address, block)] if v is not None]


@given(_VALID, _PROXIES, _VALID, _PROXIES)
def test_changed_blocks_are_those_where_some_contract_has_another_version(
    valid: list[Valid], proxies: list[StandsIn], later: list[Valid], later_proxies: list[StandsIn]
) -> None:
    touched = changed(places(valid, proxies), places(later, later_proxies))
    for block in range(2 * LAST + 2):
        differs = any(
            _expected(valid, proxies, address, block)
            != _expected(later, later_proxies, address, block)
            for address in (None, A, B)
        )
        assert differs == any(blocks.start <= block <= blocks.end for blocks in touched)
