"""`trace sql`: at a prompt, and from a pipe."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typer.testing import CliRunner

from tests.support.corpus import corpus
from tests.support.scripted_query_api import (
    VERSION,
    Reply,
    ScriptedApi,
    refusal,
    rows_reply,
    scripted_api,
    stream_headers,
)
from trace_platform.app.api_client.query_client import connect
from trace_platform.cli import sql as command
from trace_platform.cli.sql_complete import SqlCompleter
from trace_platform.cli.sql_session import Session, ShownFormat
from trace_platform.cli.sql_split import says_something, split
from trace_platform.domain.errors import BadInput, InvalidQuery, UnknownDataset

COLUMNS = {"blocks": ["block_number", "gas_used"], "labels": ["address", "label"]}
CTRL_C, CTRL_D, TAB = "\x03", "\x04", "\t"


def summary(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "dataset_uuid": str(VERSION),
        "dataset_version": str(VERSION),
        "columns": [{"name": column, "type": "BIGINT"} for column in COLUMNS[name]],
        "row_count": 1_234,
        "description": "about [it]",
        "state": "fresh",
        "newest_at": None,
    }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ScriptedApi]:
    with scripted_api(tmp_path / "home") as server:
        listed = {"datasets": [summary(name) for name in COLUMNS]}
        server.gets["/v1/datasets"] = Reply(200, json.dumps(listed).encode())
        yield server


def test_statements_end_where_no_string_or_comment_is_open() -> None:
    text = "select ';' , \"a;b\" -- ;\n, $$;$$, $x$;$$;$x$ /* ; */;\n select 'it''s;' ; rest"
    assert split(text) == (
        ["select ';' , \"a;b\" -- ;\n, $$;$$, $x$;$$;$x$ /* ; */", "select 'it''s;'"],
        " rest",
    )
    assert split("select 'open; ") == ([], "select 'open; ")
    assert split(r"select E'it\';s', e'\\'; rest") == ([r"select E'it\';s', e'\\'"], " rest")
    assert split(r"select 'a\'; x") == ([r"select 'a\'"], " x")
    assert split(r"select nameE'\'; x") == ([r"select nameE'\'"], " x")
    assert split("select 1 as a$$; select $$;$$") == (["select 1 as a$$"], " select $$;$$")
    assert split("select 1 /* /* */ ; */; x") == (["select 1 /* /* */ ; */"], " x")
    assert split("/* /* */ ;") == ([], "/* /* */ ;")
    assert split(";; -- nothing\n;") == ([], "")


@corpus(
    ("text", "complete"),
    [
        ("", True),
        ("  ", True),
        (r"\d", True),
        ("Exit", True),
        ("quit ;", True),
        ("help", True),
        ("exit from", False),
        ("select 1", False),
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1; select 2", False),
        ("select ';", False),
        ("-- a comment alone;", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, complete: bool) -> None:
    assert command.is_complete(text) is complete


def test_space_and_comments_say_nothing() -> None:
    assert not says_something(" \n-- x\n/* y */")
    assert says_something("/* y */ x")


def completions(text: str, after: str = "") -> list[str]:
    document = Document(text + after, len(text))
    found = SqlCompleter(COLUMNS).get_completions(document, CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_columns_of_the_datasets_in_the_statement_come_first() -> None:
    found = completions("select l", " from labels")
    assert found[:2] == ["select label", "select labels"]
    assert completions("select g", " from labels")[-1] == "select gas_used"
    assert completions("select g", " from blocks")[0] == "select gas_used"


def test_after_from_there_are_datasets_alone() -> None:
    assert completions("select * from ") == ["select * from blocks", "select * from labels"]
    assert completions("select * FROM blocks join l") == ["select * FROM blocks join labels"]


def test_a_dot_asks_for_the_columns_of_a_dataset_or_an_alias() -> None:
    assert completions("select blocks.b", " from blocks") == ["select blocks.block_number"]
    for pin in ("", "@0a1b2c3d", " as"):
        found = completions("select x.", f" from labels{pin} x")
        assert found == ["select x.address", "select x.label"]
    assert completions("select y.", " from labels x") == []


def test_keywords_and_functions_complete_in_any_case() -> None:
    assert "SEL"[:0] + "select" in completions("SEL")
    assert "select approx_count_distinct" in completions("select appr")


def test_commands_complete_too() -> None:
    assert completions("\\t") == [r"\timing"]
    assert completions(r"\d l") == [r"\d labels"]
    assert completions(r"\export l") == []


def talk(api: ScriptedApi, *keys: str, limit: int = 1000) -> None:
    """At a prompt that gets these keys."""
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        pipe.send_text("".join(keys))
        with connect(api.home) as connection:
            session = Session(connection, ShownFormat.table, limit, None, False)
            session.refresh()
            prompt: PromptSession[str] = command.prompt_session(api.home, session)
            command.talk(session, prompt)


def test_a_statement_may_have_several_lines(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(api, "select 1\r", "from blocks;\r", CTRL_D)
    assert api.sql == ["select 1\nfrom blocks"]
    shown = capsys.readouterr()
    assert "│ 1 │" in shown.out
    assert "1 row · 1 ms · blocks@0a1b2c3d" in shown.out
    assert shown.err.startswith("2 datasets; end a statement with ';'")


def test_one_dataset_is_one(api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.dumps({"datasets": [summary("blocks")]})
    api.gets["/v1/datasets"] = Reply(200, listed.encode())
    talk(api, CTRL_D)
    assert capsys.readouterr().err.startswith("1 dataset; ")


def test_several_statements_may_be_in_one_line(api: ScriptedApi) -> None:
    talk(api, "select 1; select 2;\r", CTRL_D)
    assert api.sql == ["select 1", "select 2"]


def test_tab_completes(api: ScriptedApi) -> None:
    with (
        create_pipe_input() as pipe,
        create_app_session(pipe, DummyOutput()),
        connect(api.home) as connection,
    ):
        session = Session(connection, ShownFormat.table, 1, None, False)
        session.refresh()
        prompt = command.prompt_session(api.home, session)
        pipe.send_text("select * from blo" + TAB)

        def go_on(_: object) -> None:
            # Completions come a moment after the key.
            if prompt.default_buffer.text == "select * from blocks":
                pipe.send_text(";\r" + CTRL_D)

        prompt.default_buffer.on_text_changed += go_on
        command.talk(session, prompt)
    assert api.sql == ["select * from blocks"]


def test_ctrl_c_clears_what_is_typed(api: ScriptedApi) -> None:
    talk(api, "select nonsense", CTRL_C, "select 1;\r", CTRL_D)
    assert api.sql == ["select 1"]


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_the_query_and_the_prompt_stays(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(body: dict[str, Any]) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return api.until_canceled(body)

    api.queries = [interrupt, rows_reply({"n": "BIGINT"}, [[7]])]
    talk(api, "select 1;\r", "select 7;\r", CTRL_D)
    assert api.canceled == [api.asked[0]["query_id"]]
    shown = capsys.readouterr()
    assert "canceled" in shown.err
    assert "│ 7 │" in shown.out


def test_an_error_ends_a_statement_and_nothing_else(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = refusal(InvalidQuery("no column x", hint="n?", line=1, column=8))
    api.queries = [wrong, rows_reply({"n": "BIGINT"}, [[1]])]
    talk(api, "select x;\r", "\\nonsense\r", "select 1;\r", CTRL_D)
    shown = capsys.readouterr()
    assert (
        "error [invalid_query]: no column x\n  1 | select x\n             ^\nhint: n?" in shown.err
    )
    assert "error [bad_input]: there is no command \\nonsense\nhint: \\? lists them" in shown.err
    assert "│ 1 │" in shown.out


def test_what_was_typed_is_kept_for_its_owner_alone(api: ScriptedApi) -> None:
    history = api.home.root / "sql_history"
    history.touch(mode=0o644)
    talk(api, "select 'a secret';\r", CTRL_D)
    assert history.stat().st_mode & 0o777 == 0o600
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        with connect(api.home) as connection:
            session = Session(connection, ShownFormat.table, 1, None, False)
            later = command.prompt_session(api.home, session)
        assert list(later.history.load_history_strings()) == ["select 'a secret';"]


@pytest.mark.parametrize("words", ["\\q\r", "exit\r", "QUIT;\r", "select 7\r" + CTRL_D])
def test_leaving(api: ScriptedApi, words: str) -> None:
    talk(api, words, "select 1;\r")
    assert api.asked == []


def test_help_is_what_it_says(api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    talk(api, "help\r", CTRL_D)
    assert "\\export FILE" in capsys.readouterr().out


def run(api: ScriptedApi, text: str, *options: str) -> Any:
    app = typer.Typer()
    app.command()(command.sql)
    arguments = [*options, "--home", str(api.home.root)]
    return CliRunner().invoke(app, arguments, input=text)


def test_a_pipe_runs_statements_and_the_last_may_lack_its_end(api: ScriptedApi) -> None:
    result = run(api, "select 1;\n-- between\n\nselect\n 2", "--format", "json")
    assert result.exit_code == 0
    assert api.sql == ["select 1", "-- between\n\nselect\n 2"]
    assert result.stdout == '[{"n": 1}]\n' * 2


def test_a_pipe_stops_at_the_first_error(api: ScriptedApi) -> None:
    api.queries = [rows_reply({"n": "BIGINT"}, [[1]]), refusal(InvalidQuery("no"))]
    result = run(api, "select 1; select wrong; select 3;")
    assert isinstance(result.exception, InvalidQuery)
    assert result.exit_code == 1
    assert api.sql == ["select 1", "select wrong"]


def test_an_empty_pipe_asks_nothing(api: ScriptedApi) -> None:
    assert run(api, " -- nothing\n").exit_code == 0
    assert api.asked == []


def test_commands_in_a_pipe(api: ScriptedApi, tmp_path: Path) -> None:
    csv = Reply(200, b"n\n1\n", stream_headers(1))
    api.queries = [lambda _: csv, rows_reply({"n": "BIGINT"}, [[1]]), lambda _: csv]
    target = tmp_path / "rows.csv"
    lines = [
        r"\format csv",
        r"\at 2026-01-31T12:00Z",
        "select 1;",
        r"\at",
        r"\format json",
        r"\timing",
        "select 2;",
        rf"\export {target}",
        r"\q",
        "select 3;",
    ]
    result = run(api, "\n".join(lines), "--limit", "7")
    assert result.exit_code == 0, result.output
    assert api.sql == ["select 1", "select 2", "select 2"]
    assert [each.get("at") for each in api.asked] == ["2026-01-31T12:00Z", None, None]
    assert [each.get("limit") for each in api.asked] == [7, 7, None]
    assert [each["format"] for each in api.asked] == ["csv", "json", "csv"]
    assert 'n\n1\ndatasets as they are\ntiming is on\n[{"n": 1}]\n' in result.stdout
    assert "ms in the service" in result.stderr
    assert target.read_bytes() == b"n\n1\n"


@pytest.mark.parametrize(
    "line",
    [
        r"\format xml",
        r"\at yesterday",
        r"\export",
        r"\export x.csv",
        r"\export rows.xlsx",
        r"\nonsense",
        "\\",
    ],
)
def test_a_command_that_cannot_be_right_is_named(api: ScriptedApi, line: str) -> None:
    error = run(api, line).exception
    assert isinstance(error, BadInput)
    assert error.hint


def words(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()]


def test_datasets_are_listed(api: ScriptedApi) -> None:
    shown = run(api, r"\d").stdout
    assert shown.splitlines()[0].split() == [
        *("dataset", "rows", "newest", "state", "version", "description"),
    ]
    assert ["blocks", "1,234", "-", "fresh", "0a1b2c3d", "about", "[it]"] in words(shown)


def test_one_dataset_is_described(api: ScriptedApi) -> None:
    api.gets["/v1/datasets/blocks"] = Reply(200, json.dumps(page()).encode())
    shown = run(api, r"\d blocks;").stdout
    assert shown.splitlines()[:2] == [
        "blocks: about [it]",
        "1,234 rows, nothing came yet; blocks is up to date",
    ]
    assert ["gas_used", "BIGINT", "personal", "what", "it", "cost"] in words(shown)
    assert ["blocks@0a1b2c3d", "2026-01-31", "12:00:00", "1,234", "current"] in words(shown)


def test_a_dataset_that_is_not_there_is_named(api: ScriptedApi) -> None:
    body = b'{"code": "unknown_dataset", "detail": "there is no dataset x"}'
    api.gets["/v1/datasets/x"] = Reply(404, body)
    assert isinstance(run(api, r"\d x").exception, UnknownDataset)


def test_help_tells_every_command(api: ScriptedApi) -> None:
    shown = run(api, r"\?").stdout
    assert all(f"{name} " in shown for name in (r"\d", r"\format", r"\at", r"\timing", r"\export"))


def test_input_that_is_no_text_is_refused(api: ScriptedApi, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    with pytest.raises(BadInput, match="not text"):
        command.sql(api.home.root)


def page() -> dict[str, Any]:
    moment = "2026-01-31T12:00:00Z"
    version = {
        "dataset_version": str(VERSION),
        "generation_id": str(VERSION),
        "current": True,
        "active": True,
        "building": False,
        "created_at": moment,
        "built_at": moment,
        "purged_at": None,
        "dag_versions": [],
        "partitions": 1,
        "rows": 1_234,
        "bytes": 1,
    }
    detail = {
        "dataset": "blocks",
        "name": "blocks",
        "dataset_uuid": str(VERSION),
        "producer": "chain.follow",
        "output_index": 0,
        "dataset_version": str(VERSION),
        "partitions": 1,
        "rows": 1_234,
        "bytes": 1,
        "newest_at": None,
        "age_s": None,
        "state": "fresh",
        "answer": "blocks is up to date",
        "description": "about [it]",
        "storage": "parquet",
        "write_mode": None,
        "columns": {"gas_used": {"type": "int64", "description": "what it cost"}},
        "pii": ["Gas_Used"],
        "max_age_s": None,
        "generation_id": str(VERSION),
        "generations": 1,
        "location": "",
        "table": None,
        "cursor": None,
        "first_block": None,
        "last_block": None,
        "gap_count": 0,
        "gaps": [],
        "upstream": [],
        "downstream": [],
    }
    nothing = {"dataset": "blocks", "dataset_version": str(VERSION), "partitions": [], "next": None}
    lineage = {"subject": "blocks", "direction": "both", "nodes": [], "edges": []}
    return {
        "columns": summary("blocks")["columns"],
        "detail": detail,
        "versions": [version],
        "partitions": nothing,
        "lineage": lineage | {"truncated": False},
    }
