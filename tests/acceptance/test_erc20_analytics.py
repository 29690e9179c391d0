"""The example as its first lines say it is run, on a development chain that is reorganised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.acceptance.test_cli_engine import trace as typed
from tests.support.cold_chain import served
from tests.support.erc20_analytics import NAME, Analytics, Checked, assert_equal, expected
from tests.support.scripted_rpc import ScriptedRpc
from tests.support.stack import Stack, trace, wait_for
from trace_devchain import DevChain
from trace_platform.cli import app

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture
def node() -> Iterator[ScriptedRpc]:
    with served(DevChain(blocks=320, txs=4)) as node:
        yield node


@pytest.fixture
def stack(tmp_path: Path, node: ScriptedRpc) -> Iterator[Stack]:
    with trace(tmp_path / "home", "up", env={"TRACE_RPC_DEMO": node.url}) as running:
        wait_for("the instance", lambda: "is ready in" in running.text())
        yield running


def test_transfers_hours_and_balances_are_those_of_the_chain_also_after_a_reorg(
    tmp_path: Path, node: ScriptedRpc, stack: Stack
) -> None:
    made = CliRunner().invoke(app, ["init", "--example", NAME, str(tmp_path / "pipeline")])
    assert made.exit_code == 0, made.output
    deployed = typed(stack, "deploy", str(tmp_path / "pipeline" / f"{NAME}.yaml"))
    assert deployed.code == 0, deployed.err
    analytics = Analytics(stack)
    analytics.caught_up(320)
    assert_equal(analytics, node, 320)
    head = int(node.answer("dev_reorg", [8]), 16)
    analytics.caught_up(head)
    assert_equal(analytics, node, head)
    rows = expected(node, head)["transfers"]
    checks = analytics.checks()
    assert checks["transfers", "unique_block_number_log_index"] == Checked(len(rows), 0)
    assert checks["balances", "nothing_from_nothing"] == Checked(0, 0)
    # Nothing is wrong, so nobody is told that something is.
    assert {each.failing for each in checks.values()} == {0}
