"""What goes wrong outside is named on the task, and nothing is lost or half-written."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.test_cli_engine import command
from tests.support.scripted_rpc import scripted_rpc
from tests.support.stack import Stack, trace, wait_for
from trace_devchain import DevChain, rpc
from trace_platform.app.api_client import control_client
from trace_platform.cli import EXIT_UNEXPECTED
from trace_platform.wire.control import TaskStatus

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

CHAIN = DevChain(blocks=100, txs=3)
# The chain is made for one thread, and the node that tells of it has one per connection.
ONE_AT_A_TIME = threading.Lock()
KEY = "k3y-0f-the-pr0vider"

DAG = """
name: {name}
defaults: {{ max_attempts: 1, heartbeat_timeout_seconds: 15 }}
jobs:
  - name: request
    activation: source
    source: {{ kind: manual }}
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{{ from: {{ job: request }} }}]
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 31337, rpc_pool: {name}, timeout_s: {timeout} }}
    timeout_seconds: {limit}
publish:
  {name}_blocks: {{ from: {{ job: ingest, output: blocks }} }}
"""


def ask(method: str, params: list[Any]) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    with ONE_AT_A_TIME:
        return json.loads(b"".join(rpc.answer(CHAIN, body.encode())))["result"]


def malformed(method: str, params: list[Any]) -> Any:
    answer = ask(method, params)
    if method == "eth_getBlockByNumber" and params[0] == "0x7":
        answer["hash"] = "0x1234"
    return answer


def wrong_chain(method: str, params: list[Any]) -> Any:
    return "0x5" if method == "eth_chainId" else ask(method, params)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("bad-input") / "home"
    with ExitStack() as open_things:
        hanging = open_things.enter_context(scripted_rpc(lambda *_: "0x7a69"))
        pools = {
            "good": f"{open_things.enter_context(scripted_rpc(ask)).url}/v2/{KEY}",
            "malformed": open_things.enter_context(scripted_rpc(malformed)).url,
            "wrong": open_things.enter_context(scripted_rpc(wrong_chain)).url,
            "dead": "http://127.0.0.1:9",
            "slow": hanging.url,
            "slower": hanging.url,
        }
        hanging.hang_on = {"eth_getBlockByNumber"}
        env = {f"TRACE_RPC_{name.upper()}": url for name, url in pools.items()}
        running = open_things.enter_context(trace(home, "up", env=env))
        wait_for("the instance", lambda: "is ready in" in running.text())
        yield running
        hanging.released.set()


def start(stack: Stack, name: str, *, timeout: float = 60, limit: float = 120) -> None:
    dag = DAG.format(name=name, timeout=timeout, limit=limit)
    control_client.deploy(stack.home, dag, f"{name}.yaml")
    control_client.trigger(stack.home, name, "request", 0, 49)


def ended(stack: Stack, name: str, status: str) -> TaskStatus:
    def look() -> TaskStatus | None:
        found = control_client.tasks(stack.home, name, status).tasks
        return found[0] if found else None

    return wait_for(f"a {status} task of {name}", look)


def committed_rows(stack: Stack, name: str) -> int:
    (dataset,) = control_client.dag_status(stack.home, name).datasets
    return dataset.row_count


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("dead", "rpc_unreachable", "127.0.0.1:9"),
        ("wrong", "wrong_chain", "chain 5"),
        ("malformed", "malformed_block", "block 7"),
        ("unknown", "invalid_config", "there is no RPC pool 'unknown'"),
    ],
)
def test_a_bad_node_is_named_on_the_task(stack: Stack, name: str, code: str, words: str) -> None:
    start(stack, name)
    task = ended(stack, name, "Failed")
    assert task.error_code == code
    assert words in (task.error_message or "")
    assert "Traceback" not in (task.error_message or "")
    assert committed_rows(stack, name) == 0


def test_a_good_node_still_works_beside_the_bad_ones(stack: Stack) -> None:
    start(stack, "good")
    ended(stack, "good", "Completed")
    assert stack.query("SELECT count(*), max(block_number) FROM good_blocks") == [[50, 49]]


def good_node(stack: Stack) -> dict[str, Any]:
    """As `trace rpc status` shows it."""
    told = command("rpc", "status", "--json", "--home", str(stack.home.root)).out
    assert KEY not in told
    pools = json.loads(told)["pools"] if told else []
    return next((pool["providers"][0] for pool in pools if pool["name"] == "good"), {})


def given_to(process: psutil.Process) -> str:
    try:
        return str((process.cmdline(), process.environ()))
    except psutil.NoSuchProcess:
        return ""


def test_the_key_of_a_node_is_known_to_the_egress_alone(stack: Stack) -> None:
    node = good_node(stack)
    assert (node["state"], node["key"], node["chain_id"]) == ("ok", "good/node", 31337)
    processes = psutil.Process(stack.process.pid).children(recursive=True)
    knowing = {process.pid for process in processes if KEY in given_to(process)}
    assert knowing == {stack.pid("rpc")}
    for log in stack.home.logs.iterdir():
        assert KEY not in log.read_text(), log
    stack.kill("rpc")
    wait_for("the key in its successor", lambda: good_node(stack).get("state") == "ok")


def test_a_task_past_its_time_out_is_stopped(stack: Stack) -> None:
    start(stack, "slow", timeout=300, limit=2)
    task = ended(stack, "slow", "Failed")
    assert task.error_code == "task_timed_out"
    assert committed_rows(stack, "slow") == 0


def test_a_running_task_can_be_cancelled(stack: Stack) -> None:
    start(stack, "slower", timeout=300)
    task = ended(stack, "slower", "Running")
    answer = control_client.cancel(stack.home, task.task_id)
    assert answer.status == "Running"
    assert ended(stack, "slower", "Canceled").error_code == "task_canceled"


def test_the_command_says_what_is_wrong_and_never_shows_a_traceback(
    stack: Stack, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\njobs:\n  - name: a\n    activaton: source\n")
    home = ("--home", str(stack.home.root))
    for arguments, words in (
        (("deploy", str(bad), *home), "activaton: unknown field; did you mean 'activation'?"),
        (("deploy", str(tmp_path / "none.yaml"), *home), "No such file"),
        (("deploy", str(tmp_path), *home), "Is a directory"),
        (("query", "selec 1", *home), "syntax error"),
        (("query", "select * from nothing", *home), "nothing"),
        (("sources", "trigger", "nope", "x", "--from", "0", "--to", "1", *home), "no DAG 'nope'"),
        (("sources", "trigger", "good", "x", "--from", "0", "--to", "1", *home), "no job 'good.x'"),
        (("sources", "trigger", "good", "request", "--from", "9", "--to", "1", *home), "9-1"),
        (("status", "--home", str(tmp_path / "empty")), "nothing runs"),
        (("query", "select 1", "--home", str(tmp_path / "empty")), "no running instance"),
    ):
        said = command(*arguments)
        assert said.code not in (0, EXIT_UNEXPECTED), arguments
        assert words in said.out + said.err, (arguments, said)
        assert "Traceback" not in said.out + said.err, (arguments, said)
    # These make processes, folders and signal handlers their own: in a process of its own.
    for arguments, words in (
        (("up", *home), "already running"),
        (("serve", "nonsense", *home), "no process 'nonsense'"),
        (("demo", "--rpc-url", "http://127.0.0.1:9", "--home", str(tmp_path / "d")), "127.0.0.1:9"),
        (("demo", "--rpc-url", "nonsense", "--home", str(tmp_path / "d")), "URL"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trace_platform.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert done.returncode != 0, arguments
        assert words in said, (arguments, said)
        assert "Traceback" not in said, (arguments, said)
