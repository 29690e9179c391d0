"""What may come next in a statement: columns, datasets, keywords, functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

KEYWORDS = (
    *("select", "from", "where", "group by", "order by", "having", "limit", "offset", "distinct"),
    *("join", "left join", "full join", "cross join", "semi join", "anti join", "asof join"),
    *("on", "using", "with", "recursive", "as", "and", "or", "not", "in", "is null", "is not null"),
    *("between", "like", "ilike", "exists", "case", "when", "then", "else", "end", "cast"),
    *("union", "union all", "union all by name", "intersect", "except", "exclude", "replace"),
    *("over", "partition by", "rows between", "unbounded preceding", "current row", "qualify"),
    *("filter", "values", "pivot", "unpivot", "describe", "summarize", "interval", "timestamp"),
    *("date", "asc", "desc", "nulls first", "nulls last", "true", "false", "null", "all", "any"),
)
FUNCTIONS = (
    *(
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "median",
        "mode",
        "stddev",
        "quantile_cont",
        "any_value",
    ),
    *("arg_max", "arg_min", "approx_count_distinct", "list", "string_agg", "histogram", "first"),
    *("row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "ntile"),
    *("coalesce", "nullif", "greatest", "least", "abs", "round", "floor", "ceil", "sqrt", "ln"),
    *("lower", "upper", "length", "substring", "replace", "trim", "concat", "split_part", "lpad"),
    *("regexp_matches", "regexp_extract", "starts_with", "contains", "hex", "from_hex", "encode"),
    *("to_timestamp", "date_trunc", "date_part", "date_diff", "strftime", "strptime", "epoch"),
    *("unnest", "range", "generate_series", "list_filter", "list_transform", "struct_pack"),
    *("json_extract", "json_extract_string", "md5", "sha256", "try_cast", "typeof"),
)
COMMANDS = (r"\d", r"\timing", r"\format", r"\at", r"\export", r"\?", r"\q")

_WORD = re.compile(r"[\w.\\?]*$")
_NAME = re.compile(r"\w+")
_RELATION = re.compile(r"\b(?:from|join|describe|summarize|,)\s+\w*$", re.IGNORECASE)


class SqlCompleter(Completer):
    """`datasets`: names with their columns. It is looked at anew each time."""

    def __init__(self, datasets: Mapping[str, list[str]]) -> None:
        self._datasets = datasets

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        before = document.text_before_cursor
        found = _WORD.search(before)
        word = found[0] if found else ""
        for text, kind in self._candidates(before, word, document.text):
            start = word.rpartition(".")[2] if kind == "column" and "." in word else word
            if text.lower().startswith(start.lower()) and text.lower() != start.lower():
                yield Completion(text, -len(start), display_meta=kind)

    def _candidates(self, before: str, word: str, text: str) -> Iterator[tuple[str, str]]:
        if before.startswith("\\"):
            command, space, _ = before.partition(" ")
            if command == r"\d" and space:
                yield from _each(self._datasets, "dataset")
            elif not space:
                yield from _each(COMMANDS, "command")
        elif "." in word:
            yield from _each(self._columns_of(word.partition(".")[0], text), "column")
        elif _RELATION.search(before):
            yield from _each(self._datasets, "dataset")
        elif word:
            yield from self._anything(text)

    def _anything(self, text: str) -> Iterator[tuple[str, str]]:
        named = [name for name in self._datasets if name in set(_NAME.findall(text))]
        # Of the datasets that the statement names first, each column once.
        columns = dict.fromkeys(c for name in named for c in self._datasets[name])
        yield from _each(columns, "column")
        yield from _each(self._datasets, "dataset")
        yield from _each(KEYWORDS, "keyword")
        yield from _each(FUNCTIONS, "function")
        others = dict.fromkeys(c for each in self._datasets.values() for c in each)
        yield from _each((c for c in others if c not in columns), "column")

    def _columns_of(self, name: str, text: str) -> list[str]:
        """Of a dataset, or of what the statement calls so: `blocks b`, `blocks@1a2b3c4d as b`."""
        called = rf'\b(\w+)(?:@[\w-]+|@"[^"]*")?\s+(?:as\s+)?{re.escape(name)}\b'
        for found in re.finditer(called, text, re.IGNORECASE):
            if found[1] in self._datasets:
                return self._datasets[found[1]]
        return self._datasets.get(name, [])


def _each(texts: Iterable[str], kind: str) -> Iterator[tuple[str, str]]:
    return ((text, kind) for text in texts)
