"""ABIs are added, shown and removed: versions that do not change, each from a block on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.dispatcher.abis.add_abi import add_abi
from trace_platform.dispatcher.abis.change_proxies import add_proxy, remove_proxy
from trace_platform.dispatcher.abis.list_abis import list_abis, show_abi
from trace_platform.dispatcher.abis.remove_abi import remove_abi
from trace_platform.domain.errors import BadInput, Conflict, InvalidAbi, NotFound
from trace_platform.wire.abi import (
    AbiChanged,
    AbiRemoved,
    AddAbi,
    AddProxy,
    RemoveAbi,
    RemoveProxy,
)

pytestmark = pytest.mark.anyio

VAULT, LOGIC = "0x" + "aa" * 20, "0x" + "bb" * 20
V1 = "event Deposit(address indexed sender, uint256 assets)"
V2 = "event Deposit(address indexed sender, uint256 assets, uint256 fee)"


async def add(plane: ControlPlane, text: str = V1, **given: Any) -> AbiChanged:
    asked = AddAbi(**({"name": "vault", "chain_id": 1, "address": VAULT, "text": text} | given))
    return await add_abi(plane.dispatcher.state, plane.dispatcher.org_id, asked)


async def remove(plane: ControlPlane, version: str, **given: Any) -> AbiRemoved:
    asked = RemoveAbi(version=version, **given)
    return await remove_abi(plane.dispatcher.state, plane.dispatcher.org_id, "vault", asked)


async def there(plane: ControlPlane, **given: Any) -> list[tuple[str | None, int, str]]:
    asked = {"chain_id": None, "address": None} | given
    found = await list_abis(plane.dispatcher.state, plane.dispatcher.org_id, **asked)
    return [(each.address, each.from_block, each.version) for each in found.abis]


async def test_a_version_is_added_once_and_another_from_a_later_block(plane: ControlPlane) -> None:
    first = await add(plane, address=VAULT.upper().replace("X", "x"))
    assert first.new
    assert not (await add(plane)).new
    second = await add(plane, V2, from_block=100)
    assert await there(plane) == [(VAULT, 0, first.version), (VAULT, 100, second.version)]
    detail = await show_abi(plane.dispatcher.state, plane.dispatcher.org_id, "vault")
    assert [each.version for each in detail.definitions] == [first.version, second.version]
    (entry,) = detail.definitions[0].entries
    assert entry.signature == "event " + V1.removeprefix("event ")
    assert entry.id is not None


async def test_another_version_from_the_same_block_has_to_be_meant(plane: ControlPlane) -> None:
    await add(plane)
    with pytest.raises(Conflict, match="from block 0 already"):
        await add(plane, V2)
    replaced = await add(plane, V2, replace=True)
    assert await there(plane) == [(VAULT, 0, replaced.version)]


async def test_a_contract_is_listed_with_what_is_for_any_and_for_what_it_stands_in(
    plane: ControlPlane,
) -> None:
    any_one = await add(plane, address=None)
    logic = await add(plane, V2, address=LOGIC)
    other_chain = await add(plane, V2, address=VAULT, chain_id=10)
    assert await there(plane, address=VAULT) == [
        (None, 0, any_one.version),
        (VAULT, 0, other_chain.version),
    ]
    state, org_id = plane.dispatcher.state, plane.dispatcher.org_id
    given = AddProxy(chain_id=1, address=VAULT, implementation=LOGIC, from_block=5)
    assert (await add_proxy(state, org_id, given)).new
    assert not (await add_proxy(state, org_id, given)).new
    other = given.model_copy(update={"implementation": "0x" + "cc" * 20})
    with pytest.raises(Conflict, match="has the implementation"):
        await add_proxy(state, org_id, other)
    assert (LOGIC, 0, logic.version) in await there(plane, address=VAULT)
    assert len((await show_abi(state, org_id, "vault")).proxies) == 1
    gone = RemoveProxy(chain_id=1, address=VAULT, from_block=5)
    assert (await remove_proxy(state, org_id, gone)).removed.implementation == LOGIC
    with pytest.raises(NotFound):
        await remove_proxy(state, org_id, gone)


async def test_a_version_is_removed_where_it_is_meant(plane: ControlPlane) -> None:
    first = await add(plane)
    await add(plane, address=LOGIC)
    second = await add(plane, V2, from_block=50)
    assert first.version is not None
    assert second.version is not None
    with pytest.raises(NotFound, match="has no version"):
        await remove(plane, "0000")
    done = await remove(plane, first.version, address=LOGIC)
    assert [each.address for each in done.removed] == [LOGIC]
    await remove(plane, first.version)
    assert await there(plane) == [(VAULT, 50, second.version)]
    # It may come back, and is what it was.
    assert (await add(plane)).version == first.version


async def test_bad_input_says_what_would_be_right(plane: ControlPlane) -> None:
    with pytest.raises(BadInput, match="comes with Trace"):
        await add(plane, name="erc20")
    with pytest.raises(InvalidAbi, match="line 2, column 9"):
        await add(plane, f"{V1}\nevent E(uint7 x)")
    await add(plane)
    with pytest.raises(NotFound) as raised:
        await show_abi(plane.dispatcher.state, plane.dispatcher.org_id, "vualt")
    assert "did you mean vault?" in (raised.value.hint or "")
    itself = AddProxy(chain_id=1, address=VAULT, implementation=VAULT)
    with pytest.raises(BadInput, match="no implementation of itself"):
        await add_proxy(plane.dispatcher.state, plane.dispatcher.org_id, itself)
