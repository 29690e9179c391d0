"""`trace devchain`: a chain to develop against."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from trace_devchain import DevChain, run
from trace_platform.cli.progress_columns import fitting


def devchain(
    port: Annotated[
        int,
        typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", metavar="N", min=0, max=65535),
    ] = 8545,
    blocks: Annotated[
        int, typer.Option(help="Height of the chain at the start.", metavar="N", min=0)
    ] = 2000,
    txs: Annotated[
        int,
        typer.Option(help="Transactions per block, on average.", metavar="N", min=0, max=10_000),
    ] = 10,
    exact_txs: Annotated[
        bool, typer.Option("--exact-txs", help="Exactly --txs in every block after genesis.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Another seed, another chain.")] = 0,
    chain_id: Annotated[
        int, typer.Option(help="The EIP-155 chain id.", metavar="N", min=1)
    ] = 31337,
    pools: Annotated[
        bool, typer.Option("--pools", help="Swaps also log a Swap, as a Uniswap v2 pool does.")
    ] = False,
    items: Annotated[
        bool,
        typer.Option("--items", help="Who sends an ERC-721 token sends some of ERC-1155, too."),
    ] = False,
    block_time: Annotated[
        float,
        typer.Option(
            help="Seconds between mined blocks; 0 mines on request only.", metavar="N", min=0
        ),
    ] = 0.0,
    key: Annotated[
        str,
        typer.Option(
            envvar="TRACE_DEVCHAIN_KEY",
            help="Answer at /KEY alone. Others see arguments: use the variable.",
            metavar="KEY",
        ),
    ] = "",
    prebuild: Annotated[
        bool, typer.Option("--prebuild", help="Build every block's JSON first, for benchmarks.")
    ] = False,
) -> None:
    """Serve a deterministic EVM chain over JSON-RPC on this machine until stopped."""
    chain = DevChain(
        blocks=blocks,
        txs=txs,
        exact_txs=exact_txs,
        seed=seed,
        chain_id=chain_id,
        pools=pools,
        items=items,
    )
    console = Console(stderr=True)
    columns = fitting(console, *Progress.get_default_columns())
    progress = Progress(*columns, console=console, transient=True, disable=not prebuild)
    building = progress.add_task("building blocks", total=blocks + 1)

    def announce(bound_port: int) -> None:
        progress.stop()
        # On stdout, so that a caller who asked for port 0 can read where to connect.
        typer.echo(f"devchain on http://127.0.0.1:{bound_port} (chain {chain_id}, head {blocks})")

    with progress:
        run(
            chain,
            port,
            prebuild=prebuild,
            block_time_s=block_time,
            key=key,
            on_built=lambda number: progress.update(building, completed=number + 1),
            on_ready=announce,
        )
