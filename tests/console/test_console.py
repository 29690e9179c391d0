"""The console in a real browser, on one real instance: every page in both themes and widths, and
what can be done there. The pictures are in tests/console/out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.support.console_browser import SHOTS, Console, console, serious
from tests.support.stack import Stack, wait_for
from tests.support.stack import trace as start_trace
from trace_platform.app.api_client import control_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.login_link import make_login_link
from trace_platform.app.instance.open_instance import open_instance, read_ports
from trace_platform.app.instance.settings import load_settings
from trace_platform.wire.task_status import TaskStatus

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

CANARY = "<img src=x onerror=alert(1)>"
FOLLOW = f"""
name: tip
description: "{CANARY}"
jobs:
  - name: follow
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: block_follower
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 31337, rpc_pool: demo, start_block: 0 }}
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_aggregator
    inputs: [{{ from: {{ job: follow, output: blocks }} }}]
    outputs: [ranges]
    config: {{ chunk_blocks: 100, finality_depth: 0 }}
publish:
  tip_blocks: {{ from: {{ job: follow, output: blocks }}, storage: postgres }}
"""
BROKEN = """
name: broken
defaults: { max_attempts: 1 }
jobs:
  - name: ask
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: raises
    activation: reactive
    runtime: ecs_platform
    operator: ./raises.py:Raises
    inputs: [{ from: { job: ask, output: ranges } }]
    outputs: [none]
"""
RAISES = f"""
from trace_platform.operators.accepts import ONE_RANGE, RANGE
from trace_platform.operators.contract import OperatorConfig


class Raises:
    Config = OperatorConfig
    output_names = ("none",)
    accepts = ONE_RANGE
    emits = RANGE

    def run(self, task):
        task.log.warning("{CANARY}", tried="{CANARY}")
        raise RuntimeError("{CANARY}")
"""

PAGES = {
    "home": "/",
    "query": "/query/",
    "catalogue": "/catalogue/",
    "dataset": "/datasets/blocks/",
    "dataset-why": "/datasets/chain.split.0/?tab=why",
    "graph": "/graph/?at=blocks",
    "chains": "/chains/",
    "runs": "/runs/",
    "task": "/tasks/TASK/",
    "why": "/why/chain.ingest/",
    "deploy": "/deploy/?dag=tip",
    "backfills": "/backfills/",
    "operators": "/operators/",
    "health": "/health/",
    "docs": "/docs/console/",
}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("console") / "home"
    with start_trace(home, "demo", "--blocks", "500") as running:
        wait_for("the demo's data", lambda: "Running." in running.text())
        control_client.deploy(running.home, FOLLOW, "tip.yaml")
        wait_for("the follower", lambda: _source(running)["last"] is not None)
        yield running


@pytest.fixture(scope="module")
def seen(instance: Stack) -> Iterator[Console]:
    with console(instance.home) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(seen: Console) -> Iterator[None]:
    yield
    seen.no_faults()


def test_the_login_link_opens_home_with_what_is_there(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/")
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        expect(page.get_by_role("link", name=re.compile(r"^blocks 500 rows"))).to_be_visible()
        expect(page.get_by_text("chain.request", exact=True)).to_be_visible()
        expect(page.get_by_text("live", exact=True)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["wide", "phone"])
def test_every_page_fits_and_keeps_nobody_out(
    seen: Console, instance: Stack, theme: str, width: str
) -> None:
    task = str(control_client.tasks(instance.home, limit=1).tasks[0].task_id)
    SHOTS.mkdir(exist_ok=True)
    wrong: list[str] = []
    with seen.page(dark=theme == "dark", phone=width == "phone") as page:
        for name, path in PAGES.items():
            page.goto(path.replace("TASK", task))
            expect(page.locator("h1")).to_be_visible()
            expect(page.locator(".skeleton")).to_have_count(0)
            page.wait_for_function("document.fonts.status === 'loaded'")
            page.screenshot(path=SHOTS / f"{name}-{width}-{theme}.png")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append(f"{name}: wider than the screen")
            wrong += [f"{name}: {each}" for each in serious(page)]
    assert wrong == []


def test_a_ready_query_runs_and_an_address_of_it_can_be_followed(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/query/")
        page.get_by_role("button", name="The most active tokens").click()
        address = page.get_by_role("gridcell").first.get_by_role("button")
        expect(address).to_have_text(re.compile("^0x[0-9a-f]{40}$"))
        page.get_by_role("button", name="Chart").click()
        expect(page.get_by_role("img", name="transfers by token")).to_be_visible()
        page.screenshot(path=SHOTS / "query-chart.png")
        page.get_by_role("button", name="Rows", exact=True).click()
        address.click()
        page.get_by_role("button", name="Rows of logs with this token").wait_for()
        page.keyboard.press("Escape")


def test_sql_is_exact_cancelled_and_wrong_in_its_place(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/query/")
        _ask(page, f"select '{2**256 - 1}'::bignum as n, {2**63 - 1} as m, '{CANARY}' as x")
        cells = page.get_by_role("gridcell")
        expect(cells.nth(0)).to_have_text(str(2**256 - 1))
        expect(cells.nth(1)).to_have_text(str(2**63 - 1))
        expect(cells.nth(2)).to_have_text(CANARY)

        _ask(page, "select gas_used,\n       gas_usedd\n  from blocks")
        expect(page.get_by_role("alert")).to_contain_text("invalid_query")
        expect(page.locator(".cm-line").nth(1).locator(".cm-lintRange-error")).to_have_text(
            "gas_usedd"
        )

        _ask(page, "select * from range(300000) t(n)", limit="1000000")
        expect(page.get_by_text("300,000 rows", exact=True)).to_be_visible()
        page.locator(".result-grid").evaluate("grid => grid.scrollTop = grid.scrollHeight")
        expect(page.get_by_role("gridcell", name="299999", exact=True)).to_be_visible()

        _ask(page, "select count(*) from range(100000000) a, range(100000) b", wait=False)
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("alert")).to_contain_text("query_canceled")

        with page.expect_download() as download:
            _ask(page, "select number from (values (1), (2)) t(number)")
            page.get_by_role("button", name="CSV").click()
        assert Path(download.value.path()).read_text().split() == ["number", "1", "2"]
        page.get_by_role("button", name="History").click()
        expect(page.get_by_role("dialog")).to_contain_text("query_canceled")


def test_completion_knows_the_columns_of_what_is_asked(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/query/")
        _type(page, "select base_fee from blocks")
        for _ in range(len(" from blocks")):
            page.keyboard.press("ArrowLeft")
        page.keyboard.type("_")
        expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("base_fee_per_gas")


def test_a_session_that_ends_loses_nothing_typed(seen: Console, instance: Stack) -> None:
    with seen.page() as page:
        page.goto("/query/")
        _type(page, "select 40 + 2 as answer")
        key = page.evaluate("localStorage.getItem('trace.session')")
        page.request.delete("/v1/session", headers={"X-Trace-CSRF": key, "Origin": seen.url})
        seen.log_in_anew()
        page.get_by_role("button", name="Run", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("There is no session")
        page.screenshot(path=SHOTS / "login-again.png")
        dialog.get_by_role("textbox").fill("not a code")
        dialog.get_by_role("button", name="Log in").click()
        expect(dialog.get_by_role("alert")).to_contain_text("unauthenticated")
        dialog.get_by_role("textbox").fill(make_login_link(instance.home))
        dialog.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("gridcell", name="42", exact=True)).to_be_visible()
        expect(page.locator(".cm-content")).to_have_text("select 40 + 2 as answer")


def test_a_part_of_the_partition_map_becomes_a_backfill(seen: Console, instance: Stack) -> None:
    with seen.page() as page:
        page.goto("/datasets/blocks/")
        band = page.locator(".band canvas")
        expect(band).to_have_attribute("aria-label", re.compile("2 partitions from 0 to 499"))
        band.hover()
        expect(page.locator(".band-said")).to_contain_text("250-499")
        box = band.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 5, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20, steps=4)
        page.mouse.up()
        expect(page.get_by_label("Last block")).to_have_value("249")
        page.screenshot(path=SHOTS / "partition-map.png")
        page.get_by_role("button", name="Backfill", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Also what is up to date").check()
        dialog.get_by_role("button", name="Preview").click()
        expect(dialog).to_contain_text("1 task")
        page.screenshot(path=SHOTS / "backfill-preview.png")
        dialog.get_by_role("button", name="Start 1 task").click()
        page.goto("/backfills/")
        expect(page.get_by_text("chain.ingest")).to_be_visible()
        # Seen live, without a reload.
        expect(page.get_by_text("1 of 1 task done")).to_be_visible(timeout=60_000)


def test_an_invalidation_is_followed_until_it_is_done(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/datasets/blocks/")
        page.get_by_role("button", name="Select by numbers").click()
        page.get_by_label("Last block").fill("249")
        page.get_by_role("button", name="Invalidate", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("chain.check")
        dialog.get_by_role("textbox").fill(CANARY)
        dialog.get_by_role("button", name="Invalidate").click()
        expect(page.get_by_role("heading", name="Being done again")).to_be_visible()
        expect(page.get_by_text(CANARY)).to_be_visible()
        expect(page.get_by_role("heading", name="Being done again")).to_be_hidden(timeout=60_000)


def test_a_reorg_is_seen_live_and_is_what_the_database_says(seen: Console, instance: Stack) -> None:
    with seen.context() as context:
        chains, graph, table = (seen.watched.watch(context.new_page()) for _ in range(3))
        chains.goto("/chains/")
        graph.goto("/graph/?at=tip_blocks")
        expect(graph.locator(".drawer")).to_contain_text("fresh")
        table.goto("/datasets/tip_blocks/")
        _node(instance, "dev_mine", 10)
        before = int(_node(instance, "eth_blockNumber"), 16)
        expect(chains.get_by_text(f"{before:,}", exact=True).first).to_be_visible()
        expect(graph.locator(".drawer")).to_contain_text(f"0 to {before:,}")
        band = table.locator(".band canvas")
        expect(band).to_have_attribute("aria-label", re.compile(f"from 0 to {before:,}"))
        _node(instance, "dev_reorg", 4)
        expect(chains.get_by_text("4 blocks replaced")).to_be_visible()
        expect(chains.locator(".reorg-strip i")).to_have_count(2)
        chains.screenshot(path=SHOTS / "reorg.png")
        expect(band).to_have_attribute("aria-label", re.compile(f"from 0 to {before + 1:,}"))
        table.screenshot(path=SHOTS / "reorg-table.png")
        ((said,),) = _state(
            instance, "SELECT reason FROM data_invalidations WHERE reason ~ 'depth 4' LIMIT 1"
        )
        expect(chains.get_by_text(said)).to_be_visible()
        expect(chains.get_by_text(f"{before - 3:,} to {before:,}", exact=True)).to_be_visible()


def test_a_plan_is_seen_before_a_deploy_and_a_rollback_undoes_it(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/deploy/?dag=tip")
        line = page.locator(".cm-line", has_text="chunk_blocks: 100")
        line.click()
        page.keyboard.press("Home")
        page.keyboard.press("Shift+End")
        page.keyboard.insert_text("config: { chunk_blocks: 50, finality_depth: 0 }")
        page.get_by_role("button", name="Plan").click()
        plan = page.locator(".plan-job", has_text="chunks")
        expect(plan).to_contain_text("changed")
        page.screenshot(path=SHOTS / "plan.png")
        page.get_by_role("button", name="Deploy", exact=True).click()
        expect(page.get_by_role("status").filter(has_text="tip is")).to_be_visible()
        back = page.get_by_role("button", name="Roll back to it")
        expect(back).to_be_visible(timeout=60_000)
        back.click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.get_by_text("rollback", exact=True)).to_be_visible(timeout=60_000)


def test_a_mistake_in_a_dag_file_is_shown_at_its_line(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/deploy/?dag=%2Bnew")
        page.locator(".cm-content").click()
        page.keyboard.insert_text("name: new\njobs:\n  - nam: x\n")
        page.get_by_role("button", name="Plan").click()
        expect(page.get_by_role("alert")).to_contain_text("invalid_dag")
        expect(page.locator(".cm-lintRange-error").first).to_be_visible()
        page.screenshot(path=SHOTS / "dag-mistake.png")


def test_a_task_that_fails_tells_why_and_strangers_text_stays_text(
    seen: Console, instance: Stack
) -> None:
    control_client.deploy(instance.home, BROKEN, "broken.yaml", code={"raises.py": RAISES})
    for first in (0, 10):
        control_client.trigger(instance.home, "broken", "ask", first, first + 9)
    failed = wait_for(
        "two failures",
        lambda: _both(
            control_client.tasks(instance.home, job="raises", status="Failed", limit=2).tasks
        ),
    )
    with seen.page() as page:
        page.goto(f"/tasks/{failed[0].task_id}/")
        expect(page.get_by_role("log")).to_contain_text(CANARY)
        page.get_by_label("Search the log").fill("onerror")
        expect(page.get_by_text("1 of", exact=False).first).to_be_visible()
        page.screenshot(path=SHOTS / "task-failed.png")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        lines = Path(download.value.path()).read_text().splitlines()
        assert any(json.loads(line).get("event") == CANARY for line in lines)


def test_selected_tasks_stand_still_are_compared_and_retried(
    seen: Console, instance: Stack
) -> None:
    with seen.page() as page:
        page.goto("/runs/?dag=broken&status=Failed")
        boxes = page.get_by_role("checkbox", name=re.compile("^Select [0-9a-f]"))
        boxes.nth(0).check()
        boxes.nth(1).check()
        expect(page.get_by_text("2 tasks selected")).to_be_visible()
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("dialog")).to_contain_text("broken.raises")
        page.screenshot(path=SHOTS / "compare.png")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Retry all that fit").click()
        page.get_by_role("dialog").get_by_role("button", name=re.compile("^Retry [0-9]")).click()
        expect(page.get_by_text(re.compile("^[0-9]+ tasks? will run again"))).to_be_visible()


def test_a_job_is_paused_and_goes_on(seen: Console, instance: Stack) -> None:
    with seen.page() as page:
        page.goto("/why/chain.ingest/")
        page.get_by_role("button", name="Pause the job").click()
        expect(page.get_by_text("On hold")).to_be_visible()
        page.get_by_role("button", name="Resume the job").click()
        expect(page.get_by_role("button", name="Pause the job")).to_be_visible()
    assert [each.holds for each in control_client.queues(instance.home).queues if each.holds] == []


def test_everything_is_a_few_keys_away(seen: Console) -> None:
    with seen.page() as page:
        page.goto("/")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        page.keyboard.press("/")
        expect(page.get_by_role("combobox")).to_be_focused()
        page.keyboard.type("transac")
        expect(page.get_by_role("option").first).to_contain_text("transactions")
        page.screenshot(path=SHOTS / "palette.png")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("/datasets/transactions/"))
        page.keyboard.press("g")
        page.keyboard.press("r")
        expect(page).to_have_url(re.compile("/runs/"))
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Go to anything")
        page.keyboard.press("Escape")
        before = page.evaluate("document.documentElement.dataset.theme")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") != before


def test_the_page_goes_on_when_the_gateway_is_back(seen: Console, instance: Stack) -> None:
    with seen.page() as page:
        page.goto("/")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        instance.kill("gateway")
        expect(page.get_by_text("reconnecting")).to_be_visible()
        expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=60_000)
        expect(page.get_by_text("chain.request", exact=True)).to_be_visible()
    # What a page says while nobody answers is no fault of it.
    seen.watched.faults.clear()


def _type(page: Page, sql: str) -> None:
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(sql)


def _ask(page: Page, sql: str, *, limit: str | None = None, wait: bool = True) -> None:
    _type(page, sql)
    if limit is not None:
        page.get_by_label("Rows at most").select_option(limit)
    page.keyboard.press("Escape")
    page.locator(".cm-content").press("Control+Enter")
    if wait:
        run = page.get_by_role("button", name="Run", exact=True)
        expect(run).to_be_enabled(timeout=60_000)


def _both(tasks: list[TaskStatus]) -> list[TaskStatus]:
    return tasks if len(tasks) == 2 else []


def _source(instance: Stack) -> dict[str, Any]:
    found = control_client.sources(instance.home).sources
    return next(each.model_dump() for each in found if each.dag_name == "tip")


def _node(instance: Stack, method: str, *params: int) -> Any:
    port, key = read_ports(instance.home)["devchain"], instance.home.secret("devchain_key")
    url = f"http://127.0.0.1:{port}/{key}"
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(url, json=asked).json()["result"]


def _state(instance: Stack, sql: str) -> list[Any]:
    """Rows of the state database, as its owner sees them."""
    settings = load_settings(instance.home)
    opened = open_instance(instance.home, settings)
    dsn = databases.dsn(instance.home, settings, opened, "trace_dispatcher")
    with psycopg.connect(dsn) as connection:
        return connection.execute(sql).fetchall()
