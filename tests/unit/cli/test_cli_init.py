"""`trace init` writes a folder that lint accepts, and never over what is there."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

import trace_platform.examples
from trace_platform.cli import app
from trace_platform.cli.init import SCHEMA
from trace_platform.domain.errors import BadInput

EXAMPLES = sorted(Path(trace_platform.examples.__path__[0]).glob("*.yaml"))


def test_every_example_becomes_a_folder_that_lint_accepts(tmp_path: Path) -> None:
    for example in EXAMPLES:
        folder = tmp_path / example.stem
        made = CliRunner().invoke(app, ["init", "--example", example.stem, str(folder)])
        assert made.exit_code == 0, (example, made.output)
        text = (folder / example.name).read_text()
        assert text == f"# yaml-language-server: $schema={SCHEMA}\n" + example.read_text()
        assert json.loads((folder / SCHEMA).read_text())["title"] == "Trace DAG"
        linted = CliRunner().invoke(app, ["dag", "lint", str(folder / example.name)])
        assert linted.exit_code == 0, (example, linted.output)


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / SCHEMA).write_text("mine")
    refused = CliRunner().invoke(app, ["init", str(tmp_path)])
    assert isinstance(refused.exception, BadInput)
    assert "is there already, and nothing was written" in refused.exception.message
    assert sorted(each.name for each in tmp_path.iterdir()) == [SCHEMA]


def test_a_second_example_goes_beside_the_first(tmp_path: Path) -> None:
    for name in ("export", "chain"):
        made = CliRunner().invoke(app, ["init", "--example", name, str(tmp_path)])
        assert made.exit_code == 0, made.output
    assert {each.name for each in tmp_path.iterdir()} == {"export.yaml", "chain.yaml", SCHEMA}


def test_an_unknown_example_is_answered_with_what_may_be_meant(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["init", "--example", "transfrom", str(tmp_path)])
    assert isinstance(refused.exception, BadInput)
    assert refused.exception.hint == "did you mean transform?"
