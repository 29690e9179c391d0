"""Tables of commands, as narrow terminals show them."""

from __future__ import annotations

import io
from uuid import UUID

from rich.console import Console

from trace_platform.cli.follow import _progress
from trace_platform.cli.table import short_id, show_table

HEADS = ("task", "job", "status", "attempt")
ROWS = [
    ("82a44870", "chain.ingest", "[red]Failed[/red]", "5"),
    ("dacb0584", "chain.split", "Completed", "11"),
]


def console(width: int, *, terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def lines(out: Console) -> list[str]:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


def test_a_row_is_a_line_and_its_note_is_below_it_as_long_as_it_is() -> None:
    out = console(44)
    notes = ["[rpc_unreachable] no provider of pool 'mainnet' answers", ""]
    show_table(out, HEADS, ROWS, right=("attempt",), notes=notes)
    assert [line.rstrip() for line in lines(out)] == [
        "task      job           status     attempt",
        "82a44870  chain.ingest  Failed           5",
        "  [rpc_unreachable] no provider of pool",
        "  'mainnet' answers",
        "dacb0584  chain.split   Completed       11",
    ]


def test_where_it_is_narrow_spare_columns_go_and_then_the_widest_are_shortened() -> None:
    out = console(30)
    show_table(out, HEADS, ROWS, spare=("attempt",))
    assert lines(out) == [
        "task      job        status",
        "82a44870  chain.in…  Failed",
        "dacb0584  chain.sp…  Completed",
    ]


def test_nothing_is_wider_than_the_terminal_and_a_pipe_has_no_width() -> None:
    for width in range(24, 60):
        out = console(width)
        show_table(out, HEADS, ROWS, notes=["x" * 200, "a b " * 50])
        assert max(map(len, lines(out))) <= width
    wide = console(10_000, terminal=False)
    show_table(wide, HEADS, ROWS, spare=("attempt",), notes=["x" * 200, ""])
    assert "x" * 200 in lines(wide)[2]
    assert "attempt" in lines(wide)[0]


def test_a_terminal_that_is_too_narrow_for_a_table_shows_records_and_loses_nothing() -> None:
    out = console(20)
    show_table(out, HEADS, ROWS, spare=("attempt",), notes=["no provider of the pool answers", ""])
    assert lines(out) == [
        "82a44870",
        "  job: chain.ingest",
        "  status: Failed",
        "  attempt: 5",
        "  no provider of the",
        "  pool answers",
        "dacb0584",
        "  job: chain.split",
        "  status: Completed",
        "  attempt: 11",
    ]


def test_prose_is_wrapped_and_not_cut() -> None:
    out = console(30)
    rows = [("[green]+ added[/green]", "split", "it reads blocks, which is new"), ("", "x", "")]
    show_table(out, ("", "job", "why"), rows, prose=("why",))
    assert lines(out) == [
        "         job    why",
        "+ added  split  it reads",
        "                blocks, which",
        "                is new",
        "         x",
    ]


def test_progress_in_a_narrow_terminal_keeps_its_words() -> None:
    out = console(30)
    progress = _progress(out)
    progress.add_task("ingest", total=3, completed=2, note="1 running")
    out.print(progress)
    [line] = lines(out)
    assert line.split() == ["ingest", "2/3", "tasks", *line.split()[3:]]


def test_a_cell_with_several_lines_stays_one() -> None:
    out = console(40)
    show_table(out, ("partition", "rows"), [("one\ntwo", "1")])
    assert lines(out)[1] == "one two    1"


def test_ids_that_begin_with_the_time_are_told_apart_by_their_end() -> None:
    by_time = UUID("01a1e1cf-ba84-7918-8a8d-e446f77b6f46")
    by_chance = UUID("3c99cb20-0468-443f-bfd2-a8503031fefa")
    assert [short_id(console(80), each) for each in (by_time, by_chance)] == [
        "f77b6f46",
        "3c99cb20",
    ]
    assert short_id(console(80, terminal=False), by_time) == str(by_time)
