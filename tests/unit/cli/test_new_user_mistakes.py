"""What a new user gets wrong, and what is said then: tests/golden/new_user_mistakes.md.

`python -m tests.unit.cli.test_new_user_mistakes --write` writes the messages anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.corpus import corpus
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.read.dag_yaml import DagErrors

GOLDEN = Path(__file__).parents[2] / "golden" / "new_user_mistakes.md"
_MISTAKE = re.compile(
    r"^## (?P<title>[^\n]+)\n\n```yaml\n(?P<yaml>.*?)^```\n\n```text\n(?P<said>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Mistake(NamedTuple):
    title: str
    yaml: str
    said: str


def mistakes() -> list[Mistake]:
    return [Mistake(**match.groupdict()) for match in _MISTAKE.finditer(GOLDEN.read_text())]


def messages(yaml: str) -> str:
    try:
        check_dag(yaml)
    except DagErrors as found:
        return "".join(f"{error.at('dag.yaml')}\n" for error in found.errors)
    return ""


@corpus("mistake", mistakes(), ids=lambda mistake: mistake.title)
def test_a_mistake_is_answered_with_its_cure(mistake: Mistake) -> None:
    assert messages(mistake.yaml) == mistake.said


def test_every_mistake_of_the_file_is_read_and_refused() -> None:
    found = mistakes()
    assert len(found) == GOLDEN.read_text().count("\n## ")
    assert len({mistake.title for mistake in found}) == len(found)
    assert all(mistake.said for mistake in found)


def test_no_message_shows_a_secret() -> None:
    said = "".join(mistake.said for mistake in mistakes())
    assert "hunter2" not in said
    assert "sk-live" not in said


def write() -> None:
    def anew(match: re.Match[str]) -> str:
        return match[0].removesuffix(f"{match['said']}```") + messages(match["yaml"]) + "```"

    GOLDEN.write_text(_MISTAKE.sub(anew, GOLDEN.read_text()))


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
