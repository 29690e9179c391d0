"""What the demo runs: an embedded chain or a real node, the example DAG, a range, a query."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import yaml

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import HOST, Instance
from trace_platform.app.supervise.process import ProcessSpec, answers
from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.lite.private_file import alone_in, write_private
from trace_platform.operators.evm.rpc import RpcClient
from trace_platform.operators.evm_header.proofs import Proofs

POOL = "demo"
EMBEDDED_CHUNK = 250
# Blocks of the embedded chain: on the first run, and more on each that follows.
FIRST, MORE = 2000, 500
# A public node is slower and may be metered: small tasks show progress and are cheap to repeat.
NODE_CHUNK = 25
TRANSFER = "Transfer(address,address,uint256)"


@dataclass(frozen=True, slots=True)
class Demo:
    """Everything that depends on which chain is read."""

    # Of the embedded chain with a key, which no other user of this machine has.
    rpc_url: str = field(repr=False)
    where: str
    dag_name: str
    dag: str = field(repr=False)
    span: BlockRange
    # Before the names of its datasets.
    prefix: str
    # Blocks before this one were asked for by an earlier run.
    known: int = 0

    @property
    def embedded(self) -> bool:
        return not self.prefix

    @property
    def query(self) -> str:
        return (
            "SELECT address AS token, count(*) AS transfers,\n"
            f"{self._new}"
            "       count(DISTINCT topic1) AS senders, count(DISTINCT topic2) AS receivers,\n"
            "       max(block_number) AS last_block\n"
            f"  FROM {self.prefix}logs\n"
            f" WHERE topic0 = topic('{TRANSFER}')\n"
            " GROUP BY address ORDER BY transfers DESC LIMIT 5"
        )

    @property
    def _new(self) -> str:
        """What came with this run, beside what was there."""
        if not self.known:
            return ""
        return f"       count(*) FILTER (WHERE block_number >= {self.known}) AS new,\n"


def embedded_demo(instance: Instance, home: Home, blocks: int | None) -> Demo:
    """Reads the development chain: from genesis on, or from where an earlier run ended."""
    known = _known(home)
    wanted = blocks or (MORE if known else FIRST)
    end = known + -(-wanted // EMBEDDED_CHUNK) * EMBEDDED_CHUNK
    return Demo(
        rpc_url=f"http://{HOST}:{instance.port('devchain')}/{home.secret('devchain_key')}",
        where="the embedded development chain",
        dag_name="chain",
        dag=_example(),
        span=BlockRange(known, end - 1),
        prefix="",
        known=known,
    )


def remember(home: Home, plan: Demo) -> None:
    """The range was asked for: the next run goes on behind it."""
    if plan.embedded:
        with alone_in(home.root):
            write_private(home.demo_file, json.dumps({"blocks": plan.span.end + 1}).encode())


def _known(home: Home) -> int:
    try:
        found = json.loads(home.demo_file.read_text())["blocks"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return found if isinstance(found, int) and found > 0 else 0


def node_demo(rpc_url: str, blocks: int) -> Demo:
    """Reads the newest final blocks of a real node. Raise when it does not answer."""
    client = RpcClient(rpc_url)
    try:
        chain_id = client.number("eth_chainId")
        head = client.number("eth_blockNumber")
    finally:
        client.close()
    name = f"chain_{chain_id}"
    return Demo(
        rpc_url=rpc_url,
        where=f"chain {chain_id} at {client.endpoint}",
        dag_name=name,
        dag=_example_for(name, chain_id),
        span=_newest(max(0, head - 64) or head, blocks),
        prefix=f"{name}_",
    )


def devchain_process(instance: Instance, plan: Demo) -> ProcessSpec:
    port = instance.port("devchain")
    command = [sys.executable, "-m", "trace_platform.cli", "devchain"]
    command += ["--port", str(port), "--blocks", str(plan.span.end + 1)]
    env = {"TRACE_DEVCHAIN_KEY": urlsplit(plan.rpc_url).path.removeprefix("/")}
    return ProcessSpec(
        name="devchain", command=lambda: command, port=port, serves=answers(port), env=env
    )


def _newest(last: int, blocks: int) -> BlockRange:
    """Whole chunks where the chain is long enough, so that runs never overlap half-way."""
    cells = (last + 1) // NODE_CHUNK
    if cells == 0:
        return BlockRange(0, last)
    wanted = -(-blocks // NODE_CHUNK)
    return BlockRange(max(0, cells - wanted) * NODE_CHUNK, cells * NODE_CHUNK - 1)


def _example() -> str:
    return (files("trace_platform") / "examples" / "chain.yaml").read_text()


def _example_for(name: str, chain_id: int) -> str:
    """The example under another name: two chains must never share a dataset."""
    dag: dict[str, Any] = yaml.safe_load(_example())
    dag["name"] = name
    for job in dag["jobs"]:
        if job["name"] == "split":
            job["config"]["chunk_blocks"] = NODE_CHUNK
        if job["name"] in ("ingest", "check"):
            job["config"]["chain_id"] = chain_id
        if job["name"] == "check":
            job["config"]["header_hash"] = Proofs.of(chain_id, None, None).header_hash
    dag["publish"] = {f"{name}_{key}": value for key, value in dag["publish"].items()}
    return yaml.safe_dump(dag, sort_keys=False)
