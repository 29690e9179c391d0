"""What the README and the pages of docs/ show in code blocks is what one types, in their order.

The README in an instance that it makes itself; then the pages by name, in one that has run the
demo, each in a shell and a Python of its own: that takes minutes, and `make test` looks at their
DAGs alone. The notation of pages is in CONTRIBUTING.md.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.documents import DOCUMENTS, ROOT, Document
from tests.support.documents_newcomer import Newcomer
from tests.support.own_port import own_port
from tests.support.short_lived import settle_for_short
from trace_platform.app.instance.home import Home
from trace_platform.cli import app

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

README, *_ = DOCUMENTS
PAGES = [each for each in DOCUMENTS if each.path.parent == ROOT / "docs"]

# Blocks that are passed over, with the reason that stands above each: a new one is listed here.
NOT_RUN = {
    "README.md": ["CI runs both, and this is a part of the second"],
    "docs/benchmarks.md": ["a file that one would add"],
    "docs/faults.md": ["takes minutes", "takes minutes"],
    "docs/hot-tables.md": ["lines of an operator, within its attempt"] * 2,
    "docs/operations.md": ["each stays, in place of the instance's own"],
    "docs/query.md": ["a line of an operator, within its attempt"],
    "docs/spark-cluster.md": ["needs a cluster", *["on the hosts of a cluster"] * 2],
    "docs/state-machine.md": ["two lines of statements in tasks.sql"],
}


def test_blocks_that_are_not_run_are_known() -> None:
    found = {
        page.name: [block.not_run for block in page.blocks if block.not_run is not None]
        for page in (README, *PAGES)
    }
    assert {name: reasons for name, reasons in found.items() if reasons} == NOT_RUN


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    command = [sys.executable, "-m", "trace_platform.cli", "devchain", "--port", "0"]
    command += ["--blocks", "1200", "--txs", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as chain:
        assert chain.stdout
        try:
            yield chain.stdout.readline().split()[2]
        finally:
            chain.terminate()


def test_the_readme_runs_as_written(tmp_path: Path, node: str) -> None:
    newcomer = Newcomer(tmp_path, node, own_port(tmp_path / "port"))
    settle_for_short(Home(newcomer.folder / "mainnet"))
    failures = newcomer.read_and_stop(README)
    assert not failures, "\n\n".join(failures)


def test_the_dags_of_every_page_pass_lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newcomer = Newcomer(tmp_path, "http://127.0.0.1:9", 9)
    monkeypatch.chdir(newcomer.folder)
    found = {page.name: newcomer.lint_arguments(page) for page in PAGES}
    assert sum(map(bool, found.values())) > 9
    for name, arguments in found.items():
        if arguments:
            done = CliRunner().invoke(app, ["dag", "lint", *arguments])
            assert done.exit_code == 0, f"{name}: {done.output}"


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, node: str) -> Iterator[Newcomer]:
    """Who has run the demo."""
    folder = tmp_path_factory.mktemp("newcomer")
    with closing(Newcomer(folder, node, own_port(folder / "port"))) as newcomer:
        newcomer.run_the_demo()
        yield newcomer


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_as_written(page: Document, newcomer: Newcomer) -> None:
    newcomer.wait_until_quiet(page)
    failures = newcomer.read(page)
    assert not failures, "\n\n".join(failures)
