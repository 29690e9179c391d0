"""ABIs that there are: those that users gave, and those that come with Trace."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from trace_platform.domain.alike import instead
from trace_platform.domain.errors import NotFound
from trace_platform.drivers.postgres.database import Database
from trace_platform.operators.decode import builtin
from trace_platform.operators.decode.abi import Abi, Event, Function, version_of, written
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.state import abis
from trace_platform.state.abis import AbiUser, Definition, StoredProxy, StoredVersion
from trace_platform.wire.abi import (
    AbiDefinition,
    AbiDetail,
    AbiEntry,
    AbiList,
    AbiVersion,
    BuiltinAbi,
    Proxy,
)

_SHOWN = 20
_NAMELESS = re.compile(r" (?=[,)])")
# By name and chain.
Users = Mapping[tuple[str, int], Sequence[str]]


async def list_abis(
    state: Database, org_id: UUID, chain_id: int | None, address: str | None
) -> AbiList:
    """Of a chain, or of a contract alone; what is for any contract is for each."""
    async with state.transaction() as tx:
        versions = await abis.versions(tx, org_id, None, chain_id)
        proxies = await abis.proxies(tx, org_id, chain_id)
        users = by_abi(await abis.users(tx, org_id))
    if address is not None:
        proxies = [each for each in proxies if each.address == address]
        meant = {None, address, *(each.implementation for each in proxies)}
        versions = [each for each in versions if each.address in meant]
    return AbiList(
        abis=shown_versions(versions, users),
        proxies=[shown_proxy(each) for each in proxies],
        builtin=[_shown_builtin(builtin.builtin(name)) for name in builtin.NAMES],
    )


async def show_abi(state: Database, org_id: UUID, name: str) -> AbiDetail:
    """Raise NotFound for a name that no ABI has."""
    if name in builtin.NAMES:
        return _builtin_detail(builtin.builtin(name))
    async with state.transaction() as tx:
        versions = await abis.versions(tx, org_id, name)
        if not versions:
            known = sorted({each.name for each in await abis.versions(tx, org_id)})
            raise unknown_abi(name, known)
        contracts = {each.address for each in versions}
        proxies = await abis.proxies(tx, org_id)
        users = by_abi(await abis.users(tx, org_id))
        hashes = list(dict.fromkeys(each.hash for each in versions))
        said = await abis.definitions(tx, hashes)
    return AbiDetail(
        name=name,
        builtin=False,
        versions=shown_versions(versions, users),
        proxies=[shown_proxy(each) for each in proxies if each.implementation in contracts],
        definitions=[_shown_definition(said[each]) for each in hashes],
    )


def unknown_abi(name: str, known: Sequence[str]) -> NotFound:
    return NotFound(
        f"there is no ABI '{name}'",
        hint=instead(name, [*known, *builtin.NAMES], _SHOWN) + "; trace abi add",
    )


def by_abi(users: Iterable[AbiUser]) -> Users:
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for user in users:
        if user.job not in found[user.abi, user.chain_id]:
            found[user.abi, user.chain_id].append(user.job)
    return found


def shown_versions(versions: Sequence[StoredVersion], users: Users) -> list[AbiVersion]:
    ordered = sorted(versions, key=lambda v: (v.name, v.chain_id, v.address or "", v.from_block))
    return [
        AbiVersion(
            name=each.name,
            chain_id=each.chain_id,
            address=each.address,
            from_block=each.from_block,
            version=version_of(each.hash),
            hash=each.hash,
            events=each.events,
            functions=each.functions,
            added_at=each.added_at,
            used_by=list(users.get((each.name, each.chain_id), ())),
        )
        for each in ordered
    ]


def shown_proxy(proxy: StoredProxy) -> Proxy:
    return Proxy(
        chain_id=proxy.chain_id,
        address=proxy.address,
        implementation=proxy.implementation,
        from_block=proxy.from_block,
        to_block=proxy.to_block,
        added_at=proxy.added_at,
    )


def _shown_builtin(abi: Abi) -> BuiltinAbi:
    return BuiltinAbi(
        name=abi.name, version=abi.version, events=len(abi.events), functions=len(abi.functions)
    )


def _builtin_detail(abi: Abi) -> AbiDetail:
    said = AbiDefinition(
        version=abi.version,
        hash=abi.digest,
        entries=shown_entries(abi.events, abi.functions),
    )
    return AbiDetail(name=abi.name, builtin=True, versions=[], proxies=[], definitions=[said])


def _shown_definition(said: Definition) -> AbiDefinition:
    events, functions = map(parse_event, said.events), map(parse_function, said.functions)
    return AbiDefinition(
        version=version_of(said.hash), hash=said.hash, entries=shown_entries(events, functions)
    )


def shown_entries(events: Iterable[Event], functions: Iterable[Function]) -> list[AbiEntry]:
    return [
        *(_event(each) for each in events),
        *(
            AbiEntry(kind="function", signature=shown_entry(each), id=f"0x{each.selector.hex()}")
            for each in functions
        ),
    ]


def shown_entry(each: Event | Function) -> str:
    """Parameters without a name have nothing behind their type."""
    return _NAMELESS.sub("", written(each))


def _event(event: Event) -> AbiEntry:
    topic = None if event.anonymous else f"0x{event.topic0.hex()}"
    return AbiEntry(kind="event", signature=shown_entry(event), id=topic)
