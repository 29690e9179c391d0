"""`trace rpc`: the pools of nodes, and how each provider does."""

from __future__ import annotations

import typer
from rich.markup import escape

from trace_platform.app.api_client.service_client import get
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption, group
from trace_platform.cli.table import show_table
from trace_platform.cli.words import printable, wide_console
from trace_platform.wire.rpc import PoolList, PoolStatus, ProviderStatus

_FIGURES = ("head", "lag", "in flight", "per s", "batch", "requests", "failed", "limited")

rpc = group("Show the pools of RPC providers.")


@rpc.callback()
def _root() -> None:
    """Makes it a group while it has one command."""


@rpc.command()
def status(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show each provider: its health, head, lag, load and limits. Shows no key."""
    found = get(Home.at(home), PoolList, "/v1/pools", "rpc")
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    for pool in found.pools:
        console.print(printable(_heading(pool)), markup=False, highlight=False)
        show_table(
            console,
            ("provider", "endpoint", "state", *_FIGURES),
            [[escape(printable(cell)) for cell in _cells(each)] for each in pool.providers],
            right=_FIGURES,
            spare=("batch", "per s", "limited", "in flight", "endpoint"),
            notes=[printable(each.reason or "") for each in pool.providers],
        )
    if not found.pools:
        said = "there is no pool: set TRACE_RPC_<NAME>, or [rpc_pools] in config.toml"
        console.print(said, markup=False, highlight=False)


def _heading(pool: PoolStatus) -> str:
    chain = "unknown" if pool.chain_id is None else str(pool.chain_id)
    head = "unknown" if pool.head is None else f"{pool.head:,}"
    return f"{pool.name}: chain {chain}, head {head}"


def _cells(each: ProviderStatus) -> tuple[str, ...]:
    return (
        each.name,
        each.endpoint,
        each.state,
        _count(each.head),
        _count(each.lag),
        f"{each.in_flight}/{each.max_concurrency}",
        "-" if each.requests_per_second is None else f"{each.requests_per_second:g}",
        _count(each.max_batch),
        _count(each.requests),
        _count(each.failures),
        _count(each.limits_hit),
    )


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
