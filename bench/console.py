"""The console in a browser: how long until a page can be used, and how smoothly it goes on."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from bench import console_data as data
from bench.harness import Bench, Goal, Result, measurement, median, spread
from bench.query import SMALL_ROWS
from bench.query_instance import instance_with
from bench.query_sides import write_transactions
from tests.support.console_browser import Console, console

BUILT = Path(__file__).parents[1] / "src" / "trace_platform" / "console_dist"
SMALL_GRAPH, LARGE_GRAPH = 100, 1000  # jobs, each with a dataset
ROWS = 300_000
SCROLL_MS = 3_000

# From one input to when it has been painted.
_WATCH_INPUTS = """() => {
  window.painted = [];
  const watch = (event) => {
    const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => painted.push(performance.now() - began)));
  };
  for (const type of ['pointermove', 'pointerdown', 'pointerup', 'wheel', 'keydown'])
    addEventListener(type, watch, { capture: true });
}"""
# A third of a window each frame, which is faster than anybody reads.
_SCROLL = """([selector, ms]) => new Promise((resolve) => {
  const place = document.querySelector(selector);
  const began = performance.now();
  let frames = 0;
  const step = () => {
    place.scrollTop += place.clientHeight / 3;
    if (performance.now() - began < ms) { frames += 1; requestAnimationFrame(step); }
    else resolve(1000 * frames / (performance.now() - began));
  };
  requestAnimationFrame(step);
})"""
_PAINTED = "() => new Promise((ok) => requestAnimationFrame(() => setTimeout(() => ok(performance.now()))))"  # noqa: E501


@measurement("console", "the console's pages in a browser, with much in them")
def measure_console(bench: Bench) -> Iterator[Result]:
    folder = bench.workspace / "transactions"
    write_transactions(folder, SMALL_ROWS)
    yield _first_javascript()
    with instance_with(bench.workspace / "home", {"transactions": folder}, door=True) as home:
        data.deploy_graph(home, "small", SMALL_GRAPH)
        data.deploy_graph(home, "large", LARGE_GRAPH)
        data.add_partitions(home, "small", "job_1")
        task = data.add_log(home)
        with console(home) as seen:
            yield from _graphs(seen, bench.runs)
            yield from _partition_map(seen, bench.runs)
            yield from _log(seen, str(task), bench.runs)
            yield from _rows(seen, bench.runs)
            seen.no_faults()


def _first_javascript() -> Result:
    files = re.findall(r'(?:src|href)="(/[^"]+\.js)"', (BUILT / "index.html").read_text())
    size = sum(len(gzip.compress((BUILT / each[1:]).read_bytes())) for each in files)
    return Result("console.javascript", size / 1e3, "kB", goal=Goal(350, "first page, gzip"))


def _graphs(seen: Console, runs: int) -> Iterator[Result]:
    small = [_graph(seen, "small") for _ in range(runs + 1)][1:]
    large = [_graph(seen, "large") for _ in range(runs + 1)][1:]
    yield _took("graph_200", [cold for cold, _ in small], 1000, "200 nodes, interactive")
    yield _took("graph_2000", [cold for cold, _ in large], 3000, "2,000 nodes, cold")
    yield _took("graph_2000_again", [warm for _, warm in large], 1000, "with its layout kept")


def _graph(seen: Console, dag: str) -> tuple[float, float]:
    """Milliseconds from going there until a node has been painted, in a new browser and again."""
    with seen.page() as page:
        return _until_node(page, dag), _until_node(page, dag)


def _until_node(page: Page, dag: str) -> float:
    page.goto(f"/graph/?dag={dag}", wait_until="commit")
    page.locator(".react-flow__node").first.wait_for()
    ready: float = page.evaluate(_PAINTED)
    expect(page.get_by_text(re.compile("^[0-9,]+ shown of"))).to_be_visible()
    return ready


def _partition_map(seen: Console, runs: int) -> Iterator[Result]:
    with seen.page() as page:
        page.goto("/datasets/small.job_1.0/", wait_until="commit")
        band = page.locator(".band canvas")
        expect(band).to_have_attribute("aria-label", re.compile(f"^{data.PARTITIONS:,} partitions"))
        opened: float = page.evaluate(_PAINTED)
        yield Result("console.partitions_open", opened, "ms", note=f"{data.PARTITIONS:,} of them")
        for name, act in (("hover", _hover), ("drag", _drag), ("zoom", _zoom)):
            took = _interactions(page, lambda act=act: [act(page) for _ in range(runs)])  # type: ignore[misc]
            worst = sorted(took)[int(len(took) * 0.95)]
            note = f"95th of {len(took)}; {spread(took)} ms"
            goal = Goal(100, "until it is painted")
            yield Result(f"console.partitions_{name}", worst, "ms", goal=goal, note=note)


def _interactions(page: Page, act: Callable[[], Any]) -> list[float]:
    page.reload()
    expect(page.locator(".band canvas")).to_be_visible()
    page.evaluate(_WATCH_INPUTS)
    act()
    page.evaluate(_PAINTED)
    took: list[float] = page.evaluate("painted")
    return took


def _hover(page: Page) -> None:
    _move(page, range(10, 900, 45))


def _drag(page: Page) -> None:
    _move(page, [100])
    page.mouse.down()
    _move(page, range(140, 800, 60))
    page.mouse.up()
    expect(page.get_by_label("First block")).to_be_visible()


def _zoom(page: Page) -> None:
    page.keyboard.down("Control")
    for notch in (-100,) * 8 + (100,) * 9:
        page.mouse.wheel(0, notch)
        page.evaluate(_PAINTED)
    page.keyboard.up("Control")


def _move(page: Page, places: Any) -> None:
    box = page.locator(".band canvas").bounding_box()
    assert box is not None
    for x in places:
        page.mouse.move(box["x"] + x, box["y"] + 20)
        page.evaluate(_PAINTED)


def _log(seen: Console, task: str, runs: int) -> Iterator[Result]:
    with seen.page() as page:
        page.goto(f"/tasks/{task}/", wait_until="commit")
        expect(page.get_by_text(f"{data.LOG_LINES:,} lines")).to_be_visible()
        page.locator(".log-line .level-warning").first.wait_for()
        opened: float = page.evaluate(_PAINTED)
        yield Result("console.log_open", opened, "ms", note=f"{data.LOG_LINES:,} lines")
        yield _frames(page, "console.log_scroll", ".log", runs)
        page.get_by_role("button", name="To the end").click()
        last = page.locator(".log-line", has_text=f"start={(data.LOG_LINES - 1) * 100}")
        expect(last).to_be_visible()
        began: float = page.evaluate(_PAINTED)
        page.get_by_label("Search the log").fill(f"start={(data.LOG_LINES - 2) * 100} ")
        expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
        ended: float = page.evaluate(_PAINTED)
        yield Result("console.log_search", ended - began, "ms", note="the last line but one")


def _rows(seen: Console, runs: int) -> Iterator[Result]:
    sql = f"select n, n * 7 as m, 'row ' || n as name, n % 2 = 0 as even from range({ROWS}) t(n)"
    with seen.page() as page:
        page.goto("/query/")
        page.locator(".cm-content").click()
        page.keyboard.insert_text(sql)
        page.get_by_label("Rows at most").select_option("1000000")
        page.locator(".cm-content").press("Control+Enter")
        expect(page.get_by_text(f"{ROWS:,} rows", exact=True)).to_be_visible(timeout=60_000)
        yield _frames(page, "console.rows_scroll", ".result-grid", runs)


def _frames(page: Page, name: str, selector: str, runs: int) -> Result:
    taken = []
    for _ in range(runs):
        page.evaluate("(selector) => { document.querySelector(selector).scrollTop = 0 }", selector)
        taken.append(page.evaluate(_SCROLL, [selector, SCROLL_MS]))
    goal = Goal(50, "while scrolling", at_most=False)
    return Result(name, median(taken), "frames/s", goal=goal, note=f"{spread(taken)}")


def _took(name: str, taken: list[float], limit: float, what: str) -> Result:
    note = f"{spread(taken)} ms"
    return Result(f"console.{name}", median(taken), "ms", goal=Goal(limit, what), note=note)
