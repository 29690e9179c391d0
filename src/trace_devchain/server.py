"""Running a chain as a process: listen on loopback, mine on time, stop on a signal."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import uvloop

from trace_devchain.chain import DevChain
from trace_devchain.http_server import HttpConnection
from trace_devchain.rpc import answer
from trace_platform.domain.errors import PortInUse, SetupError

HOST = "127.0.0.1"
_BLOCKS_BETWEEN_SIGNALS = 50


async def serve(
    chain: DevChain,
    host: str = HOST,
    port: int = 8545,
    *,
    on_ready: Callable[[int], None] | None = None,
    block_time_s: float = 0.0,
    key: str = "",
) -> None:
    """Answer until cancelled, with a key at /KEY alone. `on_ready` gets the port once connections
    are accepted.

    Port 0 takes a free one. With `block_time_s` a block is mined at that interval.
    """
    connections: set[HttpConnection] = set()
    server = await _listen(chain, host, port, connections, key)
    miner = asyncio.create_task(_mine_on_time(chain, block_time_s)) if block_time_s else None
    try:
        if on_ready:
            on_ready(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()
    finally:
        if miner:
            miner.cancel()
        server.close()
        for connection in list(connections):
            connection.close()


def run(
    chain: DevChain,
    port: int = 8545,
    *,
    prebuild: bool = False,
    block_time_s: float = 0.0,
    on_built: Callable[[int], None] | None = None,
    on_ready: Callable[[int], None] | None = None,
    key: str = "",
) -> None:
    """Serve in this process until SIGTERM or SIGINT, then return.

    With `prebuild` every block is rendered first, and `on_built` gets the number of each.
    """

    async def build_and_serve() -> None:
        if prebuild:
            await _prebuild(chain, on_built)
        await serve(chain, HOST, port, on_ready=on_ready, block_time_s=block_time_s, key=key)

    uvloop.run(_until_signal(build_and_serve()))


async def _prebuild(chain: DevChain, on_built: Callable[[int], None] | None) -> None:
    for number in chain.prebuild():
        if on_built:
            on_built(number)
        if number % _BLOCKS_BETWEEN_SIGNALS == 0:
            await asyncio.sleep(0)


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def _listen(
    chain: DevChain, host: str, port: int, connections: set[HttpConnection], key: str
) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    answer_rpc, health = partial(answer, chain), partial(_health, chain)
    try:
        return await loop.create_server(
            lambda: HttpConnection(answer_rpc, health, connections, key), host, port, backlog=1024
        )
    except OSError as error:
        raise _why_not(error, host, port) from error


def _why_not(error: OSError, host: str, port: int) -> SetupError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"port {port} on {host} is in use",
            hint="stop that program, or choose another port: --port (0 takes a free one)",
            host=host,
            port=port,
        )
    return SetupError(
        f"cannot listen on {host} port {port}: {error.strerror or error}",
        hint="Choose a port between 1024 and 65535, or 0 for a free one.",
        host=host,
        port=port,
    )


async def _mine_on_time(chain: DevChain, block_time_s: float) -> None:
    while True:
        await asyncio.sleep(block_time_s)
        chain.mine()


def _health(chain: DevChain) -> bytes:
    return b'{"status":"ok","chainId":%d,"head":%d}' % (chain.chain_id, chain.head)
