"""A place in a text of the file is told as a place of the file, however YAML writes the text."""

from __future__ import annotations

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.corpus import corpus
from trace_platform.dag.read.errors import DagErrors
from trace_platform.dag.read.load import load

MARK = "MARK"


def place_of(file: str, mark: str = MARK) -> tuple[int, int]:
    """Where the text `sql` has the mark, by the value alone."""
    loaded = load(file)
    place = loaded.root.nearest(("sql",))
    assert place.text is not None
    value = loaded.data["sql"]
    before = value[: value.index(mark)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return place.text.place(line, column)


def seen(file: str, mark: str = MARK) -> tuple[int, int]:
    """Where it is seen in the file."""
    before = file[: file.index(mark)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@corpus(
    "file",
    [
        "sql: select MARK from t\n",
        "a: 1\nsql: MARK\n",
        "sql: |\n  select a\n    from MARK\n",
        "sql: |-\n\n\n  select a,\n\n    b from MARK",
        "sql: |2\n    select a\n  from MARK\n",
        "sql: | # a note\n  select -- 'it''s'\n   MARK\n",
        "sql: >\n  select a\n  from MARK\n",
        "sql: >-\n  select a,\n\n\n  b\n    from c\n   where MARK\n  limit 1\n",
        "sql: select a\n  from\n\n  MARK\n",
        "sql: 'select ''a''\n   from MARK'\n",
        'sql: "select \\"a\\",\\n\\t b\n   from \\u00e4 MARK"\n',
        'sql: "select a, \\\n   MARK"\n',
        'sql: "select\\n\n   \\x20 MARK"\n',
        '{"sql": "select \\\\ a\\nfrom MARK"}',
        "\ufeffsql: MARK\n",
        "sql: |\r\n  select a\r\n  from MARK\r\n",
        "text: äöü 𝄞\nsql: select 'äöü 𝄞', MARK\n",
    ],
)
def test_a_place_in_a_text_is_one_of_the_file(file: str) -> None:
    shown = file.removeprefix("\ufeff")
    assert place_of(file) == seen(shown)


WORDS = st.text(st.sampled_from("ab'\"\\ \n\t#:-äß%"), max_size=30)


@given(before=WORDS, after=WORDS, style=st.sampled_from([None, "'", '"', "|", ">"]))
def test_whatever_yaml_writes_is_found_again(before: str, after: str, style: str | None) -> None:
    value = before + MARK + after
    written = yaml.safe_dump(value, default_style=style, allow_unicode=True, width=20)
    file = "sql: " + written.removesuffix("...\n")
    try:
        assume(load(file).data == {"sql": value})
    except DagErrors:
        assume(False)
    assert place_of(file) == seen(file)


def test_behind_the_last_character_is_the_end_of_the_text() -> None:
    loaded = load("sql: select a from\nx: 1\n")
    place = loaded.root.nearest(("sql",))
    assert place.text is not None
    assert place.text.place(1, 14) == (1, 19)
