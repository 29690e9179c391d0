from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tests.support.scripted_query_api import (
    Reply,
    ScriptedApi,
    arrow_reply,
    facts,
    refusal,
    rows_reply,
    scripted_api,
    stream_headers,
    used,
)
from trace_platform.cli import query as command
from trace_platform.cli.query_position import pointed
from trace_platform.cli.query_table import SHORTENED, footer, render_rows
from trace_platform.client.result import Facts
from trace_platform.domain.errors import (
    BadInput,
    DiskFull,
    InvalidQuery,
    QueryTooLarge,
    TooManyQueries,
    Unavailable,
)
from trace_platform.wire.query import QueryResponse

HASH = "0x" + "ab" * 32


def response(columns: dict[str, str], *rows: list[Any]) -> QueryResponse:
    return QueryResponse.model_validate(facts(columns, len(rows)) | {"rows": list(rows)})


def wide(count: int = 2) -> QueryResponse:
    columns = {f"column_{i}": "BIGINT" for i in range(15)} | {"hash": "BLOB", "none": "BIGINT"}
    return response(columns, *([*range(15), HASH, None] for _ in range(count)))


def shown(answer: QueryResponse, width: int, terminal: bool = True) -> list[str]:
    target = io.StringIO()
    console = Console(file=target, width=width, force_terminal=terminal, color_system=None)
    render_rows(console, answer)
    return target.getvalue().splitlines()


def test_a_table_that_fits_is_a_table() -> None:
    lines = shown(response({"n": "BIGINT", "hash": "BLOB"}, [7, HASH]), 80)
    assert any(line.startswith("│ 7 │ 0xabab") for line in lines)


def test_long_hex_is_shortened_before_the_table_is_given_up() -> None:
    lines = shown(response({"a": "BLOB", "b": "BLOB"}, [HASH, HASH]), 80)
    assert any("│ 0xababab…ababab │" in line for line in lines)


def test_a_table_that_does_not_fit_becomes_records() -> None:
    lines = shown(wide(), 80)
    assert len(lines) == 2 * (1 + 17)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("── row 1 ──")
    assert lines[18].startswith("── row 2 ──")
    assert lines[1] == "column_0:  0"
    assert lines[11] == "column_10: 10"
    assert lines[16] == f"hash:      {HASH}"
    assert lines[17] == "none:      NULL"


def test_an_address_is_whole_in_whatever_is_shown() -> None:
    address = "0x" + "cd" * 20
    few = response({"from": "BLOB", "hash": "BLOB"}, [address, HASH])
    assert any(f"│ {address} │ 0xababab…ababab │" in line for line in shown(few, 80))
    many = response({f"a{n}": "BLOB" for n in range(4)}, [address] * 4)
    assert shown(many, 80)[1:] == [f"a{n}: {address}" for n in range(4)]


def test_the_readme_shows_the_table_of_the_demo_as_a_terminal_does() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    page = [line for line in readme.splitlines() if line[:1] in tuple("┏┃┡│")]
    rows = [line.strip("│ ").split("│") for line in page if line.startswith("│")]
    names = ("token", "transfers", "senders", "receivers", "last_block")
    columns = {name: "BLOB" if name == "token" else "BIGINT" for name in names}
    answer = response(columns, *([token.strip(), *map(int, more)] for token, *more in rows))
    assert all(re.fullmatch("0x[0-9a-f]{40}", token) for token, *_ in answer.rows)
    assert shown(answer, 100)[:-1] == page


def test_words_in_a_record_are_whole_and_longer_hex_is_where_it_fits() -> None:
    assert f"hash:      {HASH}" in shown(wide(), 60)
    data = "0x" + "ef" * 64
    answer = response({"data": "BLOB", "n": "BIGINT"}, [data, 1])
    assert f"data:      {data}" in shown(wide_record(answer), 150)
    assert "data:      0xefefef…efefef" in shown(wide_record(answer), 60)


def wide_record(answer: QueryResponse) -> QueryResponse:
    """With so many columns that no table fits."""
    more = {f"column_{n}": "BIGINT" for n in range(20)}
    columns = {each.name: each.type for each in answer.columns}
    return response(columns | more, *([*row, *range(20)] for row in answer.rows))


def test_what_is_left_out_is_said_with_the_way_to_get_it() -> None:
    def is_shortened(answer: QueryResponse) -> bool:
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
        return render_rows(console, answer)

    assert is_shortened(response({"a": "BLOB", "b": "BLOB"}, [HASH, HASH]))
    assert not is_shortened(response({"a": "BLOB"}, [HASH]))
    assert not is_shortened(wide())
    assert is_shortened(wide_record(response({"a": "BLOB"}, [HASH + "00" * 40])))
    assert "csv and json have all of it" in SHORTENED


def test_a_pipe_gets_the_whole_table() -> None:
    lines = shown(wide(), 80, terminal=False)
    assert len(lines) == 6
    assert HASH in lines[3]


def test_a_pipe_gets_the_whole_value_however_long() -> None:
    cell = "0x" + "ab" * 75_000
    lines = shown(response({"x": "VARCHAR", "n": "BIGINT"}, [cell, 7]), 80, terminal=False)
    assert lines[3] == f"│ {cell} │ 7 │"


def test_no_rows_are_no_records_and_still_have_columns() -> None:
    [said] = shown(wide(0), 20)
    assert said.startswith("columns: column_0, column_1, ")


def test_the_footer_says_what_was_read_and_what_was_not_shown() -> None:
    answer = response({"n": "BIGINT"}, [1])
    assert footer(Facts.told(answer)) == "1 row · 1 ms · blocks@0a1b2c3d"
    then = used() | {"at": "2026-01-31T12:00:00Z"}
    masked = answer.model_dump() | {
        "truncated": True,
        "datasets": [then, used("labels", ["name", "e\x1bmail"])],
    }
    assert footer(Facts.told(QueryResponse.model_validate(masked))) == (
        "first 1 row, there are more (--limit) · 1 ms · blocks@0a1b2c3d, labels@0a1b2c3d"
        " · blocks at 2026-01-31T12:00:00+00:00 · labels: name, e\\x1bmail masked"
    )


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedApi]:
    with scripted_api(tmp_path_factory.mktemp("instance") / "home") as server:
        yield server


def invoke(api: ScriptedApi, *arguments: str) -> Any:
    app = typer.Typer()
    app.command()(command.query)
    return CliRunner().invoke(app, ["select 1", *arguments, "--home", str(api.home.root)])


@pytest.mark.parametrize("name", ["rows.xlsx", "rows", "rows.table"])
def test_a_name_that_tells_no_format_is_refused(
    tmp_path: Path, api: ScriptedApi, name: str
) -> None:
    error = invoke(api, "--output", str(tmp_path / name)).exception
    assert isinstance(error, BadInput)
    assert error.hint == "give --format, or a name that ends in .json, .csv, .arrow or .parquet"
    assert api.asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_is_given_counts(tmp_path: Path, api: ScriptedApi) -> None:
    assert invoke(api, "--output", str(tmp_path / "rows.txt"), "--format", "json").exit_code == 0
    assert (tmp_path / "rows.txt").read_text() == '[{"n": 1}]\n'


@pytest.mark.parametrize("name", ["none/rows.csv", "folder.csv", "/proc/rows.csv"])
def test_a_place_that_cannot_be_written_is_refused_before_the_query(
    tmp_path: Path, api: ScriptedApi, name: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert isinstance(invoke(api, "--output", str(tmp_path / name)).exception, BadInput)
    assert api.asked == []


def test_a_file_in_a_folder_that_takes_no_other_is_written_where_it_is(
    tmp_path: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may make files in any folder: here it may not."""
    target, make = tmp_path / "rows.json", os.open
    target.write_text("before, and longer than what comes")
    inode = target.stat().st_ino

    def closed(name: Any, flags: int, *more: Any, **others: Any) -> int:
        if str(name).endswith(".partial"):
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return make(name, flags, *more, **others)

    monkeypatch.setattr(os, "open", closed)
    answers, api.queries = api.queries, [refusal(InvalidQuery("no"))]
    assert isinstance(invoke(api, "--output", str(target)).exception, InvalidQuery)
    assert target.read_text() == "before, and longer than what comes"
    api.queries = answers
    assert invoke(api, "--output", str(target)).exit_code == 0
    assert (target.read_text(), target.stat().st_ino) == ('[{"n": 1}]\n', inode)
    assert isinstance(invoke(api, "--output", str(tmp_path / "new.json")).exception, BadInput)
    assert list(tmp_path.glob("*.json")) == [target]


def test_a_full_disk_and_names_that_no_file_has_are_told_as_such(
    tmp_path: Path, api: ScriptedApi
) -> None:
    full = invoke(api, "--output", "/dev/full", "--json").exception
    assert isinstance(full, DiskFull)
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    (tmp_path / "file").touch()
    for name in ("loop.json", "x" * 300 + ".json", "file/rows.json"):
        refused = invoke(api, "--output", str(tmp_path / name)).exception
        assert isinstance(refused, BadInput), name
    assert len(api.asked) == 1


def test_a_pipe_and_the_standard_output_are_written_and_not_replaced(
    tmp_path: Path, api: ScriptedApi
) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert invoke(api, "--output", str(pipe)).exit_code == 0
        assert read.result(60) == '[{"n": 1}]\n'
    assert pipe.is_fifo()
    target = tmp_path / "log"
    target.write_text("before\n")
    with (
        target.open("a") as log,
        trace(api, "query", "select 1", "--json", "--output", "/dev/stdout", stdout=log) as process,
    ):
        assert process.wait(30) == 0
    assert target.read_text() == 'before\n[{"n": 1}]\n'


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_is_refused(tmp_path: Path, api: ScriptedApi) -> None:
    tmp_path.chmod(0o500)
    assert isinstance(invoke(api, "--output", str(tmp_path / "rows.csv")).exception, BadInput)
    assert api.asked == []


def test_a_dash_is_the_standard_output(api: ScriptedApi) -> None:
    assert json.loads(invoke(api, "--output", "-", "--json").stdout) == [{"n": 1}]
    assert "│ 1 │" in invoke(api, "--output", "-").stdout


def test_json_and_another_format_contradict(api: ScriptedApi) -> None:
    assert invoke(api, "--json", "--format", "csv").exit_code == 2
    assert invoke(api, "--json", "--format", "json").exit_code == 0
    assert len(api.asked) == 1


def test_what_is_shown_and_what_is_written_have_limits_of_their_own(
    api: ScriptedApi, tmp_path: Path
) -> None:
    invoke(api)
    invoke(api, "--output", str(tmp_path / "rows.json"))
    invoke(api, "--output", str(tmp_path / "rows.json"), "--limit", "5")
    assert [each.get("limit") for each in api.asked] == [None, 1_000_000, 5]


def test_a_moment_goes_along(api: ScriptedApi) -> None:
    invoke(api, "--at", "2026-01-31T12:00Z")
    assert api.asked[0]["at"] == "2026-01-31T12:00Z"


def test_pages_are_followed(api: ScriptedApi) -> None:
    api.gets["/v1/query/x/pages/2"] = Reply(200, b'{"rows": [[2]], "next": null}')
    api.queries = [rows_reply({"n": "BIGINT"}, [[1]], row_count=2, next="/v1/query/x/pages/2")]
    assert json.loads(invoke(api, "--json").stdout) == [{"n": 1}, {"n": 2}]
    assert "│ 2 │" in invoke(api).stdout


def test_no_rows_are_an_empty_array(api: ScriptedApi) -> None:
    api.queries = [rows_reply({"n": "BIGINT"}, [])]
    assert invoke(api, "--json").stdout == "[]\n"


def test_bytes_of_the_service_are_written_as_they_are(api: ScriptedApi, tmp_path: Path) -> None:
    table = pa.table({"n": range(3_000)})
    api.queries = [arrow_reply(table)]
    result = invoke(api, "--output", str(tmp_path / "rows.arrow"))
    assert pa.ipc.open_stream((tmp_path / "rows.arrow").read_bytes()).read_all().equals(table)
    assert "3,000 rows · 1 ms · blocks@0a1b2c3d" in result.stderr
    api.queries = [lambda _: Reply(200, b"n\n1\n", stream_headers(1))]
    assert invoke(api, "--format", "csv").stdout == "n\n1\n"
    assert [each["format"] for each in api.asked] == ["arrow", "csv"]


@pytest.mark.parametrize("name", ["rows.json", "rows.txt"])
def test_more_rows_than_a_file_gets_are_no_file_unless_they_are_cut_on_purpose(
    api: ScriptedApi, tmp_path: Path, name: str
) -> None:
    api.queries = [rows_reply({"n": "BIGINT"}, [[1]], truncated=True)]
    format = ["--format", "table"] if name == "rows.txt" else []
    result = invoke(api, "--output", str(tmp_path / name), *format)
    assert isinstance(result.exception, QueryTooLarge)
    assert ".csv" in (result.exception.hint or "")
    assert list(tmp_path.iterdir()) == []
    cut = invoke(api, "--output", str(tmp_path / name), *format, "--limit", "1")
    assert cut.exit_code == 0
    assert "first 1 row, there are more" in cut.stderr


def test_what_was_masked_is_said_whatever_the_format(api: ScriptedApi, tmp_path: Path) -> None:
    headers = stream_headers(1) | {"X-Trace-Masked": "people.%D0%B8%D0%BC%D1%8F,people.age"}
    api.queries = [lambda _: Reply(200, b"n\n1\n", headers)]
    for more in ([], ["--output", str(tmp_path / "rows.csv")]):
        assert "people: имя, age masked" in invoke(api, "--format", "csv", *more).stderr
    more = {"link": "/x", "bytes": 1, "sha256": hashlib.sha256(b"1").hexdigest()}
    export = facts({}, 1, datasets=[used("people", ["age"])], **more) | {
        "expires_at": "2026-01-31T12:00:00Z"
    }
    api.queries = [lambda _: Reply(200, json.dumps(export).encode())]
    api.gets["/x"] = Reply(200, b"1")
    assert "people: age masked" in invoke(api, "--output", str(tmp_path / "r.parquet")).stderr


def test_an_answer_that_breaks_off_leaves_no_file(api: ScriptedApi, tmp_path: Path) -> None:
    api.queries = [arrow_reply(pa.table({"n": range(3_000)}), cut=5_000)]
    result = invoke(api, "--output", str(tmp_path / "rows.arrow"))
    assert isinstance(result.exception, Unavailable)
    assert list(tmp_path.iterdir()) == []


def test_the_output_holds_rows_alone(api: ScriptedApi) -> None:
    datasets = [used("labels", ["name"])]
    api.queries = [rows_reply({"n": "BIGINT"}, [[1]], truncated=True, datasets=datasets)]
    result = invoke(api, "--json", "--timing")
    assert json.loads(result.stdout) == [{"n": 1}]
    assert "first 1 row, there are more (--limit)" in result.stderr
    assert "labels: name masked" in result.stderr
    assert "1.2 ms in the service, " in result.stderr


def test_an_error_points_at_its_place(api: ScriptedApi) -> None:
    api.queries = [refusal(InvalidQuery("there is no column", hint="look", line=1, column=8))]
    error = invoke(api).exception
    assert isinstance(error, InvalidQuery)
    assert error.message == "there is no column\n  1 | select 1\n             ^"
    assert error.hint == "look"


def test_a_caret_stands_below_its_column_whatever_is_before_it() -> None:
    sql = "select 1\n\tfrom '数据' wher" + " x" * 200
    error = pointed(InvalidQuery("no", line=2, column=12), sql)
    _, line, caret = error.message.split("\n")
    assert line.startswith("  2 |  from '数据' wher x")
    assert line.endswith("…")
    # Each of the two characters is two cells wide.
    assert caret.index("^") == line.index("wher") + 2
    late = pointed(InvalidQuery("no", line=2, column=200), sql).message.split("\n")
    assert late[1].startswith("  2 | …")
    assert late[1][late[2].index("^")] == sql.splitlines()[1][199]


@pytest.mark.parametrize("place", [{}, {"line": 9, "column": 1}, {"line": "x", "column": None}])
def test_an_error_without_a_place_stays_as_it_is(place: dict[str, Any]) -> None:
    error = InvalidQuery("no", **place)
    assert pointed(error, "select 1") is error


def test_a_busy_service_is_waited_for_and_said(api: ScriptedApi) -> None:
    busy = refusal(TooManyQueries("2 queries are running", retry_after_s=0.01))
    api.queries = [busy, rows_reply({"n": "BIGINT"}, [[1]])]
    result = invoke(api, "--json")
    assert result.stdout == '[{"n": 1}]\n'
    assert result.stderr == "2 queries are running: asking again in 0.01 s\n"


def test_one_that_stays_busy_is_an_error(api: ScriptedApi) -> None:
    api.queries = [refusal(TooManyQueries("busy", hint="try again", retry_after_s=60))]
    assert isinstance(invoke(api).exception, TooManyQueries)


def trace(api: ScriptedApi, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trace_platform.cli", *arguments]
    return subprocess.Popen([*command, "--home", str(api.home.root)], **more)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_query_and_leaves_no_file(
    api: ScriptedApi, tmp_path: Path, number: signal.Signals
) -> None:
    asked = api.until_canceled
    target = tmp_path / "rows.arrow"
    started: list[subprocess.Popen[bytes]] = []

    def interrupt(body: dict[str, Any]) -> Reply:
        started[0].send_signal(number)
        return asked(body)

    api.queries = [interrupt]
    started.append(trace(api, "query", "select 1", "--output", str(target), stderr=subprocess.PIPE))
    with started[0] as process:
        assert process.stderr
        assert (process.wait(30), process.stderr.read()) == (128 + number, b"canceled\n")
    assert api.canceled == [api.asked[0]["query_id"]]
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def test_binary_formats_are_not_for_a_terminal(api: ScriptedApi) -> None:
    master, terminal = os.openpty()
    with trace(
        api, "query", "select 1", "--format", "arrow", stdout=terminal, stderr=subprocess.PIPE
    ) as process:
        os.close(terminal)
        assert process.stderr
        assert b"arrow is not for a terminal" in process.stderr.read()
        assert process.wait(30) == 1
    os.close(master)
    assert api.asked == []


@pytest.mark.parametrize(("format", "said"), [("json", '[{"n": "é"}]\n'), ("table", "\\xe9")])
def test_an_output_without_the_letters_is_no_defect(
    api: ScriptedApi, format: str, said: str
) -> None:
    api.queries = [rows_reply({"n": "VARCHAR"}, [["é"]])]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with trace(
        api, "query", "select 1", "--format", format, stdout=subprocess.PIPE, env=ascii_only
    ) as process:
        assert process.stdout
        assert said in process.stdout.read().decode()
        assert process.wait(30) == 0


def test_an_error_sends_no_escape_to_a_terminal(api: ScriptedApi) -> None:
    api.queries = [refusal(InvalidQuery("no \x1b]0;title\x07", hint="\x1b[31mred"))]
    master, terminal = os.openpty()
    with trace(api, "query", "select 1", stderr=terminal) as process:
        assert process.wait(30) == 1
    os.close(terminal)
    said = os.read(master, 1_000)
    os.close(master)
    assert said == b"error [invalid_query]: no \\x1b]0;title\\x07\r\nhint: \\x1b[31mred\r\n"


def test_csv_sends_no_escape_to_a_terminal(api: ScriptedApi) -> None:
    api.queries = [lambda _: Reply(200, b"n\n\x1b[31mred\n", stream_headers(1))]
    master, terminal = os.openpty()
    with trace(api, "query", "select 1", "--format", "csv", stdout=terminal) as process:
        assert process.wait(30) == 0
    os.close(terminal)
    assert os.read(master, 1_000) == b"n\r\n\\x1b[31mred\r\n"
    os.close(master)
