"""`trace abi guess`: which ABI may decode this?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import abi_client, dataset_client
from trace_platform.app.api_client.query_client import run_query
from trace_platform.app.instance.home import Home
from trace_platform.cli.abi_file import read_abi_file
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import printable, wide_console
from trace_platform.domain.errors import BadInput
from trace_platform.domain.figures import count
from trace_platform.wire.abi import AbiGuess, AbiGuesses, GuessAbi, SeenId

_ID = re.compile(r"0x(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{8})")
# Of a dataset: the ids that most rows have.
_MOST_IDS = 1_000
_LOGS = """
SELECT '0x' || lower(hex(topic0)) AS id,
       1 + (topic1 IS NOT NULL)::int + (topic2 IS NOT NULL)::int
         + (topic3 IS NOT NULL)::int AS topics,
       count(*) AS n
  FROM {dataset} WHERE topic0 IS NOT NULL{where} GROUP BY ALL ORDER BY n DESC
"""
_CALLS = """
SELECT '0x' || lower(left(hex({input}), 8)) AS id, NULL AS topics, count(*) AS n
  FROM {dataset} WHERE octet_length({input}) >= 4{where} GROUP BY ALL ORDER BY n DESC
"""
# By a column that only such a dataset has: the statement, its input and the contract.
_KINDS = {
    "topic0": (_LOGS, "", "address"),
    "action_input": (_CALLS, "action_input", "action_to"),
    "input": (_CALLS, "input", "to_address"),
}


def guess(
    what: Annotated[
        str | None,
        typer.Argument(help="A signature, a topic or selector in hex, or a file with an ABI."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Logs, transactions or traces to look at.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Only of this contract.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the ABIs that know a signature, a topic, a selector or a dataset: stored ones, and those
    that come with Trace."""
    if (what is None) == (dataset is None):
        raise typer.BadParameter("give one of: a signature, topic, selector or file; --dataset")
    if address is not None and dataset is None:
        raise typer.BadParameter("--address goes with --dataset")
    place = Home.at(home)
    given = _asked(what) if what is not None else _seen(place, dataset or "", address)
    found = abi_client.guess(place, given)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    _show(wide_console(), found, counted=dataset is not None)


def _asked(what: str) -> GuessAbi:
    if _ID.fullmatch(what):
        return GuessAbi(seen=[SeenId(id=what)])
    if "(" in what:
        return GuessAbi(text=what)
    return GuessAbi(text=read_abi_file(Path(what)))


def _seen(home: Home, dataset: str, address: str | None) -> GuessAbi:
    detail = dataset_client.dataset(home, dataset)
    kind = next((each for each in _KINDS if each in (detail.columns or {})), None)
    if kind is None:
        raise BadInput(
            f"{dataset} has neither topics nor calls",
            hint="give logs, transactions or traces, as cryo_ingest and block_follower write them",
        )
    statement, column, contract = _KINDS[kind]
    where = f" AND {contract} = '{_checked(address)}'" if address is not None else ""
    name = '"' + dataset.replace('"', '""') + '"'
    sql = statement.format(dataset=name, input=column, where=where)
    rows = run_query(home, sql, _MOST_IDS).rows
    return GuessAbi(
        seen=[SeenId(id=str(id), topics=topics, rows=int(rows)) for id, topics, rows in rows]
    )


def _checked(address: str) -> str:
    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", address):
        raise BadInput(f"'{address[:80]}' is no address", hint="0x and 40 hex digits")
    return address.lower()


def _show(console: Console, found: AbiGuesses, *, counted: bool) -> None:
    for entry in found.entries[:_MOST_IDS]:
        kind = f"{printable(entry.signature)}  {entry.id or ''}"
        console.print(escape(kind), highlight=False, soft_wrap=True)
    if not found.guesses:
        console.print("no ABI knows it")
    for guess in found.guesses:
        _show_guess(console, guess, counted=counted)
    if found.unknown:
        rows = count(sum(each.rows for each in found.unknown), "row")
        ids = count(len(found.unknown), "other id")
        console.print(f"\nno ABI knows {ids} of {rows}, such as {found.unknown[0].id}")


def _show_guess(console: Console, guess: AbiGuess, *, counted: bool) -> None:
    from_where = "comes with Trace" if guess.builtin else f"stored, version {guess.version}"
    said = f"\n{guess.name} ({from_where}): {len(guess.matched)} of {guess.of}"
    console.print(escape(said), highlight=False)
    entries = [escape(printable(each.signature)) for each in guess.matched]
    rows = [(f"{each.rows:,}" if counted else "") for each in guess.matched]
    heads = ("entry", "rows" if counted else "")
    show_table(
        console, heads, list(zip(entries, rows, strict=True)), right=heads[1:], prose=heads[:1]
    )
