"""How pages are read, and how what they show is compared: what tests/acceptance/test_documents.py
stands on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.support.corpus import corpus
from tests.support.documents import Block, Document
from tests.support.documents_dags import completed, is_whole
from tests.support.documents_python import Python, shown
from tests.support.documents_shell import Shell
from tests.support.documents_shown import fits
from tests.support.documents_standins import Standins
from tests.support.documents_steps import commands
from trace_platform.dag.check.check_dag import check_dag


def test_a_comment_above_a_block_says_why_it_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: a cluster -->\n```sh\nls\n```\n\n- one\n  ```\n  two\n  ```\n")
    first, second = Document(page).blocks
    assert first == Block("ls\n", 3, "sh", "a cluster")
    assert second == Block("two\n", 8, "")


def test_a_console_block_has_commands_and_what_they_print() -> None:
    text = "$ cat <<END\n$ in it\nEND\n$ f() {\n  ls\n}\n$ ask\nstart it? [y/N]: y\n"
    first, second, third = commands(Block(text, 10, "console"))
    assert (first.text, first.line, first.shown) == ("cat <<END\n$ in it\nEND", 10, ())
    assert (second.text, second.line, second.shown) == ("f() {\n  ls\n}", 13, ())
    assert (third.line, third.shown, third.answers) == (16, ("start it? [y/N]: y",), "y\n")


@corpus(
    ("page", "printed", "good"),
    [
        (["3 rows in 4 ms · blocks@4f2a61c0"], "3 rows in 1.2 s · blocks@0af1b2c3\n", True),
        (["3 rows"], "4 rows\n", False),
        (["one", "...", "two"], "one\nx\ny\ntwo\n", True),
        (["one", "..."], "one\n", True),
        (["one", "two"], "one\nx\ntwo\n", False),
        (["one"], "one\ntwo\n", False),
        (["at … of it"], "at 3 of it\n", True),
        (["a      b", "", "━━━━ 8/8"], "a b\n━ 8/8\n", True),
        (["12 of 36"], "11 of 36\n", False),
    ],
)
def test_what_is_shown_fits_what_was_printed(page: list[str], printed: str, good: bool) -> None:
    assert fits(page, printed) is good


def test_a_shell_keeps_variables_and_answers_questions(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})
    shell.run("mkdir sub; cd sub; said=yes")
    assert shell.run(
        "[ -t 0 ] && read -r answer; echo $said $answer $PWD", "y\n"
    ).printed.split() == [
        *("yes", "y"),
        str(tmp_path / "sub"),
    ]
    assert shell.run("ls nowhere").code == 2
    ended = shell.interrupt("trap 'exit 3' INT; echo up; sleep 60", lambda said: "up" in said)
    assert ended.code == 3
    shell.close()


def test_what_ends_before_anybody_interrupts_it_says_why(tmp_path: Path) -> None:
    with closing(Shell(tmp_path, tmp_path, {"PATH": "/usr/bin:/bin"})) as shell:
        ended = shell.interrupt("echo no such option; exit 2", lambda said: "up" in said)
    assert (ended.code, ended.printed) == (2, "no such option\n")


def test_python_keeps_names_and_tells_what_it_prints(tmp_path: Path) -> None:
    python = Python(tmp_path, "page", {})
    assert python.run("n = 2").code == 0
    code = "print(n, 'of them')      # 2 of them"
    assert fits(shown(code), python.run(code).printed)
    broken = python.run("print(missing)")
    assert (broken.code, "NameError" in broken.printed) == (1, True)
    python.close()


def test_a_fragment_of_a_dag_is_completed() -> None:
    fragment = """
- name: split
  operator: range_splitter
  inputs: [{ from: { job: request, output: ranges } }]
  config: { chunk_blocks: 10 }
"""
    assert not is_whole(fragment)
    dag = check_dag(completed(fragment))
    assert [job.name for job in dag.jobs] == ["request", "split"]


def test_mainnet_of_a_page_is_the_chain_of_this_machine() -> None:
    here = Standins("http://node", 9999, lambda _: None)
    assert here.put("--from 19000120 --to 19_001_999") == "--from 120 --to 1_999"
    assert here.put("blocks 19,000,000 to 19,001,999") == "blocks 0 to 1,999"
    assert (
        here.put("{ chain_id: 1, x: 10 } at https://...")
        == "{ chain_id: 31337, x: 10 } at http://node"
    )
    assert here.put("chain_id: { in: [1, 10] }, 0x19000000, 190000001") == (
        "chain_id: { in: [1, 10] }, 0x19000000, 190000001"
    )
