"""DESCRIBE with a mark on the columns whose values are not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trace_platform.sql.gate import Statement
from trace_platform.sql.pins import Edit, Edited
from trace_platform.sql.sql_text import listed, without_semicolon

MARK = "masked"


def marked(statement: Statement, masked: Sequence[str]) -> Statement:
    if not masked:
        return statement
    sql = without_semicolon(statement.sql)
    mark = (
        f"SELECT * REPLACE (CASE WHEN list_contains({listed(masked)}, column_name)"
        f" THEN '{MARK}' END AS extra) FROM (\n"
    )
    end = len(sql.encode())
    edited = Edited(sql, [Edit(0, 0, mark.encode()), Edit(end, end, b"\n)")])
    return replace(statement, sql=edited.sql, edits=(*statement.edits, edited))
