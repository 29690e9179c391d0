"""`trace abi`: ABIs that an instance keeps, of which contracts and from which block on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import abi_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import abi_guess
from trace_platform.cli.abi_file import read_abi_file
from trace_platform.cli.abi_redo import WaitOption, finish
from trace_platform.cli.confirm import YesOption, confirm
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, block_option, group
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.domain.chains import CHAINS, chain_id_of
from trace_platform.domain.errors import BadInput
from trace_platform.wire.abi import (
    AbiDetail,
    AbiVersion,
    AddAbi,
    AddProxy,
    Proxy,
    RemoveAbi,
    RemoveProxy,
)

abi = group("Keep ABIs: of which contract, and from which block on.")

_ADDRESS = r"0x and 40 hex digits"
_NAMES = {chain_id: name for name, chain_id in CHAINS.items()}

ChainOption = Annotated[
    str, typer.Option("--chain", help="Id of the chain, or a name such as ethereum.")
]
AnyChainOption = Annotated[
    str | None, typer.Option("--chain", help="Only of this chain: its id, or a name.")
]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Take the place of one from the same block.")
]


@abi.command()
def add(
    name: Annotated[str, typer.Argument(help="What jobs call it: small letters, digits and _.")],
    file: Annotated[
        Path, typer.Argument(help="JSON of a compiler, or signatures in lines; - reads stdin.")
    ],
    chain: ChainOption,
    address: Annotated[
        str | None, typer.Option(help="The contract. Without it: any that has none of its own.")
    ] = None,
    from_block: Annotated[
        int, block_option("--from-block", help="First block of which it is the contract's.")
    ] = 0,
    replace: ReplaceOption = False,
    wait: WaitOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add an ABI, or a version of one that is valid from a later block. What was decoded by another
    version there is decoded again."""
    given = AddAbi(
        name=_name(name),
        chain_id=chain_id_of(chain),
        address=_address(address, "--address"),
        from_block=from_block,
        text=read_abi_file(file),
        replace=replace,
    )
    instance = Home.at(home)
    done = abi_client.add(instance, given)
    of = given.address or "any contract"
    there = "added" if done.new else "is there already"
    place = f"{of} on chain {given.chain_id} from block {from_block:,}"
    typer.echo(done.model_dump_json() if as_json else f"{name} {done.version} {there}: {place}")
    finish(instance, done.redo, wait=wait, said=not as_json)


@abi.command("list")
def list_abis(
    chain: AnyChainOption = None,
    address: Annotated[str | None, typer.Option(help="Only what decodes this contract.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the ABIs, where they are valid, and who decodes by them."""
    chain_id = None if chain is None else chain_id_of(chain)
    found = abi_client.listing(Home.at(home), chain_id, _address(address, "--address"))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if found.abis:
        _show_versions(console, found.abis)
    else:
        console.print(at_home("no ABI is stored: trace abi add NAME FILE --chain ID"))
    _show_proxies(console, found.proxies)
    names = ", ".join(each.name for each in found.builtin)
    console.print(f"\ncome with Trace: {names}", highlight=False)


@abi.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of the ABI.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the versions of an ABI, with their events and functions."""
    found = abi_client.show(Home.at(home), name)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if found.builtin:
        console.print(f"{found.name} comes with Trace", highlight=False)
    else:
        _show_versions(console, found.versions)
    _show_proxies(console, found.proxies)
    _show_definitions(console, found)


abi.command()(abi_guess.guess)


@abi.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the ABI.")],
    version: Annotated[str, typer.Option(help="The version, or the beginning of it.")],
    chain: AnyChainOption = None,
    address: Annotated[str | None, typer.Option(help="Only of this contract.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also while a job decodes by it, which does so again.")
    ] = False,
    yes: YesOption = False,
    wait: WaitOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a version of an ABI. Rows that were decoded by it keep its hash until they are decoded
    again."""
    if len(version) < 4 or not set(version.lower()) <= set("0123456789abcdef"):
        raise BadInput(
            f"'{version}' is no version", hint=f"give 4 hex digits or more: trace abi show {name}"
        )
    given = RemoveAbi(
        version=version.lower(),
        chain_id=None if chain is None else chain_id_of(chain),
        address=_address(address, "--address"),
        force=force,
    )
    if not yes:
        confirm(f"Remove version {version} of ABI {name}?")
    instance = Home.at(home)
    done = abi_client.remove(instance, name, given)
    if as_json:
        typer.echo(done.model_dump_json())
    else:
        for each in done.removed:
            typer.echo(f"removed {each.name} {each.version}: {_of(each)}")
    finish(instance, done.redo, wait=wait, said=not as_json)


@abi.command()
def proxy(
    address: Annotated[str, typer.Argument(help="The contract whose logs are decoded.")],
    chain: ChainOption,
    implementation: Annotated[
        str | None, typer.Option(help="The contract by whose ABIs they are decoded.")
    ] = None,
    from_block: Annotated[
        int, block_option("--from-block", help="First block of which that is so.")
    ] = 0,
    to_block: Annotated[
        int | None,
        block_option("--to-block", help="Last block; without it until another one follows."),
    ] = None,
    replace: ReplaceOption = False,
    take_back: Annotated[
        bool, typer.Option("--remove", help="Take back what was said from this block.")
    ] = False,
    wait: WaitOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that a contract is decoded by another one's ABIs, from a block to a block."""
    if (implementation is None) != take_back:
        raise typer.BadParameter("give one of: --implementation ADDRESS, --remove")
    of, chain_id, instance = _needed(address, "the proxy"), chain_id_of(chain), Home.at(home)
    if take_back:
        gone = RemoveProxy(chain_id=chain_id, address=of, from_block=from_block)
        removed = abi_client.remove_proxy(instance, gone)
        said = f"{of} is not decoded by {removed.removed.implementation} any more"
        typer.echo(removed.model_dump_json() if as_json else said)
        finish(instance, removed.redo, wait=wait, said=not as_json)
        return
    given = AddProxy(
        chain_id=chain_id,
        address=of,
        implementation=_needed(implementation or "", "--implementation"),
        from_block=from_block,
        to_block=to_block,
        replace=replace,
    )
    done = abi_client.add_proxy(instance, given)
    last = "on" if to_block is None else f"to {to_block:,}"
    said = f"{of} is decoded by {given.implementation} from block {from_block:,} {last}"
    said = said if done.new else f"{said}: it was so already"
    typer.echo(done.model_dump_json() if as_json else said)
    finish(instance, done.redo, wait=wait, said=not as_json)


def _show_versions(console: Console, versions: Sequence[AbiVersion]) -> None:
    rows = [
        (
            escape(each.name),
            each.version,
            _chain(each.chain_id),
            each.address or "any",
            f"{each.from_block:,}",
            f"{each.events:,}",
            f"{each.functions:,}",
            ago(each.added_at),
            escape(", ".join(each.used_by)),
        )
        for each in versions
    ]
    heads = ("abi", "version", "chain", "contract", "from block", "events", "functions", "added")
    right = ("from block", "events", "functions")
    show_table(
        console, (*heads, "used by"), rows, right=right, spare=("added",), prose=("used by",)
    )


def _show_proxies(console: Console, proxies: Sequence[Proxy]) -> None:
    if not proxies:
        return
    console.print()
    rows = [
        (
            each.address,
            _chain(each.chain_id),
            each.implementation,
            f"{each.from_block:,}",
            "" if each.to_block is None else f"{each.to_block:,}",
        )
        for each in proxies
    ]
    heads = ("proxy", "chain", "implementation", "from block", "to block")
    show_table(console, heads, rows, right=("from block", "to block"))


def _show_definitions(console: Console, found: AbiDetail) -> None:
    for said in found.definitions:
        console.print(f"\n{said.version}", highlight=False)
        rows = [
            (escape(printable(each.signature)), "" if each.id is None else each.id)
            for each in said.entries
        ]
        show_table(console, ("entry", "topic or selector"), rows, prose=("entry",))


def _of(each: AbiVersion) -> str:
    return (
        f"{each.address or 'any contract'} on chain {each.chain_id} from block {each.from_block:,}"
    )


def _chain(chain_id: int) -> str:
    return _NAMES.get(chain_id, str(chain_id))


def _name(text: str) -> str:
    if not (text[:1].isascii() and text[:1].islower()) or len(text) > 64 or not _is_word(text):
        raise BadInput(
            f"'{text}' cannot be the name of an ABI",
            hint="small letters, digits and _, a letter first: its outputs begin with it",
        )
    return text


def _is_word(text: str) -> bool:
    return all(c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in text)


def _address(text: str | None, what: str) -> str | None:
    return None if text is None else _needed(text, what)


def _needed(text: str, what: str) -> str:
    digits = text[2:].lower()
    if text[:2].lower() != "0x" or len(digits) != 40 or not set(digits) <= set("0123456789abcdef"):
        raise BadInput(f"{what}: '{text[:80]}' is no address", hint=f"an address is {_ADDRESS}")
    return f"0x{digits}"
