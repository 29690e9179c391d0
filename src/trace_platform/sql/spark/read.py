"""Whether a statement of Spark SQL may run at all: it is one SELECT over the names that it is
given, and touches no file, no catalog, no session and no program."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from trace_platform.domain.alike import meant
from trace_platform.sql.checks import Problem
from trace_platform.sql.spark import functions

DIALECT = "spark"
# It says itself what it does not know, and a statement that it does not know is refused.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)

_ONE = "it has to be one SELECT: it may begin with WITH, and nothing stands behind it"
_REFUSED: dict[type[exp.Expr], str] = {
    exp.QueryTransform: "SELECT TRANSFORM runs a program",
    exp.Command: "it is no SELECT",
    exp.DDL: "it is no SELECT",
    exp.DML: "it changes data",
    exp.Into: "SELECT INTO writes a table",
    exp.Set: "SET changes the session",
    exp.Use: "USE changes the session",
    exp.Parameter: "a parameter is written :name",
    exp.SessionParameter: "a parameter is written :name",
    exp.Version: "a job reads what is current: leave VERSION and TIMESTAMP AS OF out",
}
# Functions that make rows, where a relation stands.
_MAKE_ROWS = frozenset(
    {
        "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
        "posexplode_outer", "range", "sequence", "stack", "variant_explode",
        "variant_explode_outer",
    }
)  # fmt: skip


class Refused(Exception):
    """What is wrong, each with its place."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems[0].said)
        self.problems = problems


def read(sql: str, words: Collection[str]) -> exp.Query:
    """The statement as a tree. `words` are its parameters. Raise Refused with all that it may not
    say."""
    tree = _parsed(sql)
    found = sorted(_problems(tree, sql, words), key=lambda each: (each.line or 0, each.column or 0))
    if found:
        raise Refused(list({(p.said, p.line, p.column): p for p in found}.values()))
    return tree


def problem(said: str, sql: str, at: int | None) -> Problem:
    """At a character of the statement."""
    if at is None:
        return Problem(said=said)
    before = sql[:at]
    return Problem(said=said, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))


def place_of(node: exp.Expr) -> int | None:
    """Where it begins, as far as its parts know."""
    starts = [each.meta.get("start") for each in node.walk()]
    return min((start for start in starts if isinstance(start, int)), default=None)


def _parsed(sql: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=DIALECT) if tree is not None]
    except (ParseError, TokenError) as error:
        raise Refused([_syntax(error, sql)]) from None
    except SqlglotError as error:
        raise Refused([Problem(said=str(error).partition("\n")[0])]) from None
    if len(trees) != 1:
        second = next((place_of(tree) for tree in trees[1:]), None)
        raise Refused([problem(_ONE if trees else "it is empty", sql, second)])
    (tree,) = trees
    if not isinstance(tree, exp.Query):
        word = sql.split(None, 1)[0].upper()
        said = f"{word} is no SELECT: {_ONE}"
        raise Refused([problem(said, sql, len(sql) - len(sql.lstrip()))])
    return tree


def _syntax(error: SqlglotError, sql: str) -> Problem:
    told = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if "line" not in told:
        return Problem(said=_no_marks(str(error).partition("\n")[0]))
    mark = str(told.get("highlight") or "")
    column = max(1, int(told["col"]) - max(len(mark), 1) + 1)
    near = f" near '{mark}'" if mark else ""
    said = f"this is no SQL that can be read{near}: {_plain(str(told['description']))}"
    return Problem(said=said, line=int(told["line"]), column=column)


def _no_marks(text: str) -> str:
    return text.replace("\x1b[4m", "").replace("\x1b[0m", "").rstrip(". ")


def _plain(description: str) -> str:
    """Without the parser's own names for things."""
    if description.startswith("Required keyword"):
        return "something is missing here"
    return description[:1].lower() + description[1:].rstrip(". ")


def _problems(tree: exp.Query, sql: str, words: Collection[str]) -> Iterator[Problem]:
    for node in tree.walk():
        for kind, said in _REFUSED.items():
            if isinstance(node, kind):
                yield problem(
                    f"{said}: {_ONE}" if "no SELECT" in said else said, sql, place_of(node)
                )
        if isinstance(node, exp.Table):
            yield from _table(node, sql)
        elif isinstance(node, exp.Placeholder):
            yield from _placeholder(node, sql, words)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            said = "a function is called by its name alone, without a catalog or a database"
            yield problem(said, sql, place_of(node))
        if isinstance(node, exp.Func):
            yield from _function(node, sql)


def _table(table: exp.Table, sql: str) -> Iterator[Problem]:
    if table.args.get("db") or table.args.get("catalog"):
        said = f"{_written(table)} is no input: SQL reads the job's inputs and earlier steps"
        yield problem(
            f"{said} by name, and no files, catalogs or other sources", sql, place_of(table)
        )
    elif isinstance(table.this, exp.Func):
        name = _name(table.this, sql)
        if name and name not in _MAKE_ROWS:
            yield problem(f"{name}(…) is nothing to read from", sql, place_of(table))


def _written(table: exp.Table) -> str:
    return ".".join(part.sql(DIALECT) for part in table.parts)


def _placeholder(node: exp.Placeholder, sql: str, words: Collection[str]) -> Iterator[Problem]:
    name = node.name
    if not name or name == "?":
        yield problem("a parameter has a name: write :name", sql, _first(sql, "?"))
    elif name not in words:
        known = ", ".join(f":{word}" for word in sorted(words))
        cure = meant(name, words) or (f"it has {known}" if known else "declare it under params")
        yield problem(f"there is no parameter :{name}; {cure}", sql, _first(sql, f":{name}"))


def _first(sql: str, text: str) -> int | None:
    """Parameters do not know their place; text and comments do not count."""
    for token in sqlglot.tokenize(sql, read=DIALECT):
        if token.token_type in (TokenType.COLON, TokenType.PLACEHOLDER) and sql.startswith(
            text, token.start
        ):
            return int(token.start)
    return None


def _function(node: exp.Func, sql: str) -> Iterator[Problem]:
    name = _name(node, sql)
    if name is None or name in functions.WORDS or name in functions.allowed():
        return
    if name in functions.REFUSED:
        why = "it runs code, or tells of the machine and its files"
        yield problem(f"{name} may not be called: {why}", sql, place_of(node))
    elif isinstance(node, exp.Anonymous) or name in functions.of_spark() or name.isidentifier():
        cure = meant(name, functions.allowed())
        said = f"there is no function {name}"
        yield problem(f"{said}; {cure}" if cure else said, sql, place_of(node))


def _name(node: exp.Func, sql: str) -> str | None:
    """As it is written; None for what is no call by name, such as an operator."""
    start, end = node.meta.get("start"), node.meta.get("end")
    if not isinstance(start, int) or not isinstance(end, int):
        return node.name.lower() if isinstance(node, exp.Anonymous) else None
    return sql[start : end + 1].strip("`").lower()
