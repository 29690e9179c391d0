"""What a hint names can be typed where the person is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from tests.support.corpus import corpus
from trace_platform.cli import app
from trace_platform.cli.given_home import at_home


def hint(*arguments: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trace_platform.cli", *arguments],
        capture_output=True,
        text=True,
        env={name: v for name, v in os.environ.items() if name != "TRACE_HOME"} | env,
    )
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    return said


def test_a_hint_has_the_home_that_was_given(tmp_path: Path) -> None:
    home = str(tmp_path / "of mine")
    assert f"`trace up --home '{home}'`" in hint("tasks", "list", "--home", home)
    assert "`trace up`" in hint("tasks", "list", TRACE_HOME=home), "the next command has it too"


@corpus(
    ("said", "meant"),
    [
        ("trace why a.b says why", "trace why --home /h a.b says why"),
        ("mend it, then trace tasks retry 7", "mend it, then trace tasks retry --home /h 7"),
        ("trace alerts lists them", "trace alerts --home /h lists them"),
        ("or trace alerts ack 7", "or trace alerts ack --home /h 7"),
        ("trace queues dead list", "trace queues dead list --home /h"),
        ("`trace down`, then `trace up`", "`trace down --home /h`, then `trace up --home /h`"),
        ("trace up or trace down ends it", "trace up --home /h or trace down --home /h ends it"),
        # Which need no home, or are no commands.
        ("trace devchain", "trace devchain"),
        ("trace dag lint FILE", "trace dag lint FILE"),
        ("a trace of it", "a trace of it"),
    ],
)
def test_each_command_in_it_gets_the_home(said: str, meant: str) -> None:
    CliRunner().invoke(app, ["status", "--home", "/h"])
    assert at_home(said) == meant
    CliRunner().invoke(app, ["status"])
    assert at_home(said) == said
