"""Which ABI it may be: by signatures, and by the topics and selectors of data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.abis.add_abi import add_abi
from trace_platform.dispatcher.abis.guess_abi import guess_abi
from trace_platform.domain.errors import InvalidAbi
from trace_platform.domain.evm_encoding import keccak256
from trace_platform.wire.abi import AbiGuesses, AddAbi, GuessAbi

pytestmark = pytest.mark.anyio

TRANSFER = "0x" + keccak256(b"Transfer(address,address,uint256)").hex()
DEPOSIT = "0x" + keccak256(b"Deposit(address,uint256)").hex()
SEND = "0x" + keccak256(b"transfer(address,uint256)").hex()[:8]


async def guess(plane: ControlPlane, **given: Any) -> AbiGuesses:
    return await guess_abi(plane.dispatcher.state, plane.dispatcher.org_id, GuessAbi(**given))


async def test_a_signature_without_names_is_found_as_event_and_as_function(
    plane: ControlPlane,
) -> None:
    found = await guess(plane, text="Transfer(address,address,uint256)")
    assert next((each.kind, each.id) for each in found.entries) == ("event", TRANSFER)
    assert {each.name for each in found.guesses} == {"erc20", "erc721"}
    (called,) = (await guess(plane, text="function transfer(address to, uint256)")).guesses
    assert (called.name, called.matched[0].id) == ("erc20", SEND)


async def test_the_number_of_topics_tells_alike_events_apart(plane: ControlPlane) -> None:
    seen = [{"id": TRANSFER.upper().replace("X", "x"), "topics": 4, "rows": 7}]
    (only,) = (await guess(plane, seen=seen)).guesses
    assert (only.name, only.matched[0].rows) == ("erc721", 7)


async def test_stored_abis_are_looked_through_and_the_best_comes_first(
    plane: ControlPlane,
) -> None:
    text = "event Deposit(address indexed dst, uint256 wad)\nevent Other(uint256 x)"
    asked = AddAbi(name="vault", chain_id=1, text=text)
    await add_abi(plane.dispatcher.state, plane.dispatcher.org_id, asked)
    seen = [
        {"id": DEPOSIT, "topics": 2, "rows": 5},
        {"id": TRANSFER, "topics": 3, "rows": 2},
        {"id": "0x" + "77" * 32, "topics": 1, "rows": 9},
    ]
    found = await guess(plane, seen=seen)
    # Of two that explain as many rows the one of which more is there.
    assert [each.name for each in found.guesses] == ["vault", "weth", "erc20"]
    assert [each.rows for each in found.unknown] == [9]


async def test_a_pasted_abi_is_compared_entry_by_entry(plane: ControlPlane) -> None:
    entries = [
        {"type": "function", "name": "transfer",
         "inputs": [{"name": "a", "type": "address"}, {"name": "b", "type": "uint256"}]},
        {"type": "function", "name": "unheard", "inputs": []},
    ]  # fmt: skip
    found = await guess(plane, text=json.dumps(entries))
    assert [(each.name, len(each.matched)) for each in found.guesses] == [("erc20", 1)]
    assert len(found.entries) == 2
    with pytest.raises(InvalidAbi) as raised:
        await guess(plane, text="no signature")
    assert "Transfer(address,address,uint256)" in (raised.value.hint or "")
