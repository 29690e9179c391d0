"""What a query child says of its filters never becomes SQL of its own making."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trace_platform.data.columns import Column
from trace_platform.query.protocol.messages import Filter
from trace_platform.query.service.hot_filters import conditions

TYPES = ["bigint", "bytea", "text", "double precision", "boolean", "numeric"]
COLUMNS = [Column(name=f"c{n}", type=kind, nullable=True) for n, kind in enumerate(TYPES)]
OPERAND = r'"c\d"(::text)?( COLLATE "C")?'
LITERAL = (
    r"(true|false|bigint '-?\d+'|numeric '-?\d+'|double precision '[-+0-9.einfa]+'"
    r"|decode\('[0-9a-f]*', 'hex'\)|convert_from\(decode\('[0-9a-f]*', 'hex'\), 'UTF8'\))"
)
CONDITION = re.compile(
    rf"{OPERAND} (=|>|>=|<|<=) {LITERAL}|{OPERAND} IN \({LITERAL}(, {LITERAL})*\)|false"
)
hostile = st.text() | st.sampled_from(["'", "\\", "'; DROP TABLE x; --", "0x'", "0x00", "c0", "in"])
value = hostile | st.integers() | st.floats() | st.booleans()
said: st.SearchStrategy[Any] = st.builds(
    Filter,
    st.sampled_from([column["name"] for column in COLUMNS]) | hostile,
    st.sampled_from(["=", ">", ">=", "<", "<=", "in"]) | hostile,
    st.lists(value, max_size=3),
)


@settings(max_examples=1_000)
@given(filters=st.lists(said, max_size=3))
def test_every_condition_is_of_words_digits_and_hex_alone(filters: list[Filter]) -> None:
    for condition in conditions(filters, COLUMNS):
        assert CONDITION.fullmatch(condition), condition


def test_text_is_ordered_by_its_bytes_whatever_the_database_is_set_to() -> None:
    asked = [Filter("c2", ">", ["a"]), Filter("c5", "<", ["9"])]
    assert conditions(asked, COLUMNS) == [
        "\"c2\" COLLATE \"C\" > convert_from(decode('61', 'hex'), 'UTF8')",
        "\"c5\"::text COLLATE \"C\" < convert_from(decode('39', 'hex'), 'UTF8')",
    ]
