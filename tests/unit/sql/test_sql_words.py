"""What is only written differently is the same statement; whatever else differs is another."""

from __future__ import annotations

from trace_platform.domain.sql_words import words

ONE = "select a.b, 'x -- y' as c from t where a>=1 and b = r'\\' and d = \"it\"\"s\""
SAME = [
    ONE.replace(" from", "\n\n  from"),
    ONE.replace(", ", ",") + " -- said",
    "/* what\n it is */ " + ONE.replace(">=", " >= "),
]
PAIRS = [
    ("select 'a' 'b'", "select 'a''b'"),
    ("select 'a b'", "select 'a  b'"),
    ("select 'a -- b'", "select 'a'"),
    ("select a - -1", "select a --1"),
    ("select 1.5", "select 1 . 5"),
    ("select `a b`", "select `a  b`"),
    ("select '\\' -- '", "select '\\'"),
    ("select r'\\' -- '\n, 1", "select r'\\' -- '"),
    ("select a from t", "select A from t"),
    ("select /* a /* b */ c */ 1", "select c */ 1"),
    ("select ab", "select a b"),
]


def test_layout_and_comments_make_no_other_statement() -> None:
    for other in SAME:
        assert words(other) == words(ONE), other


def test_whatever_may_mean_something_else_is_another_statement() -> None:
    for one, other in PAIRS:
        assert words(one) != words(other), one
