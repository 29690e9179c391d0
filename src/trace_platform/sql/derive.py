"""Which columns of what it reads each column of a statement is computed from.

The statement is a tree in which sqlglot has said of each name whose column it is. Values count, and
not what chooses rows: filters, join conditions and keys of groups are told apart from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, build_scope

from trace_platform.domain.digest import digest
from trace_platform.sql.derivation import Derivation, DerivedColumn, Origin

# In the tree: what a node stands for, once that is known.
_MEANS = "means"
_DIGITS = 16


class Unclear(Exception):
    """Something of the statement is not understood: nothing is said of any column."""


@dataclass(frozen=True, slots=True)
class Value:
    origins: frozenset[Origin]
    meaning: str


_NOTHING: frozenset[Origin] = frozenset()
# Functions that make several rows of one and that sqlglot has no word for.
_MAKE_ROWS = frozenset({"inline_outer", "json_tuple", "stack", "variant_explode"})


@dataclass(frozen=True, slots=True)
class Rows:
    """What a name in FROM stands for."""

    # What decides which rows there are.
    kept: Value
    columns: Mapping[str, Value] = field(default_factory=dict)
    # Of an input: whatever column is asked for is its own.
    source: str | None = None
    # Of a function that makes rows: whatever column is asked for is of all that it is given.
    each: Value | None = None

    def column(self, name: str) -> Value:
        if name == "*":
            raise Unclear("all columns as one value")
        if self.source is not None:
            return Value(frozenset({Origin(self.source, name)}), f"{self.source}.{name}")
        if self.each is not None:
            return Value(self.each.origins, f"{self.each.meaning}:{name}")
        if name not in self.columns:
            raise Unclear(name)
        return self.columns[name]


def rows_of_input(source: str) -> Rows:
    return Rows(Value(_NOTHING, source), source=source)


def rows_of_step(step: Derivation) -> Rows:
    columns = {each.name: Value(frozenset(each.origins), each.meaning) for each in step.columns}
    return Rows(Value(frozenset(step.rows_from), step.rows_meaning), columns)


def derive(
    tree: exp.Query,
    types: Mapping[str, str],
    relations: Mapping[str, Rows],
    words: Mapping[str, str],
    dialect: str,
) -> Derivation | None:
    """Of a qualified statement, whose nodes are marked. `types` are by column, `words` what
    parameters stand for. None where it cannot be told."""
    if any(each.args.get("recursive") for each in tree.find_all(exp.With)):
        return None
    try:
        scope = build_scope(tree)
        if scope is None:
            return None
        found = _Walk(relations, words, dialect).rows(scope)
    except (Unclear, SqlglotError, RecursionError, KeyError, ValueError, AttributeError):
        # Lineage is told where it is known, and costs nobody a statement that would run.
        return None
    columns = [
        DerivedColumn(
            name=name,
            type=types.get(name, ""),
            origins=sorted(value.origins),
            meaning=value.meaning,
        )
        for name, value in found.columns.items()
    ]
    return Derivation(
        columns=columns, rows_from=sorted(found.kept.origins), rows_meaning=found.kept.meaning
    )


class _Walk:
    def __init__(
        self, relations: Mapping[str, Rows], words: Mapping[str, str], dialect: str
    ) -> None:
        self._relations, self._words, self._dialect = relations, words, dialect
        self._known: dict[int, Rows] = {}

    def rows(self, scope: Scope) -> Rows:
        place = id(scope.expression)
        if place in self._known:
            return self._known[place]
        self._known[place] = found = self._found(scope)
        return found

    def _found(self, scope: Scope) -> Rows:
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            return self._set_operation(scope, query)
        if isinstance(query, exp.Select):
            return self._select(scope, query)
        if isinstance(query, exp.Subquery) and len(scope.subquery_scopes) == 1:
            return self.rows(scope.subquery_scopes[0])
        if isinstance(query, exp.UDTF):
            return self._of_function(scope, query)
        raise Unclear(type(query).__name__)

    def _set_operation(self, scope: Scope, query: exp.SetOperation) -> Rows:
        """Column by column, by place, as the first side calls them."""
        sides = [self.rows(each) for each in scope.set_operation_scopes]
        if len({len(side.columns) for side in sides}) != 1 or query.args.get("by_name"):
            raise Unclear("sides with different columns")
        columns = {
            name: _together([list(side.columns.values())[n] for side in sides])
            for n, name in enumerate(sides[0].columns)
        }
        kept = [side.kept for side in sides]
        distinct = bool(query.args.get("distinct"))
        if distinct or not isinstance(query, exp.Union):
            kept += columns.values()
        kept += [self._value(scope, part, columns) for part in _ends(query)]
        return Rows(_together(kept, f"{type(query).__name__} {distinct}"), columns)

    def _select(self, scope: Scope, query: exp.Select) -> Rows:
        if scope.pivots:
            raise Unclear("PIVOT")
        columns = self._columns(scope, query)
        distinct = query.args.get("distinct") is not None
        chosen = [
            value
            for select, values in columns
            for value in values.values()
            if distinct or _makes_rows(select)
        ]
        named = {name: value for _, values in columns for name, value in values.items()}
        read = [self._source(source).kept for _, source in scope.selected_sources.values()]
        decided = [self._value(scope, part, named) for part in _deciding(query)]
        kinds = _kinds(query)
        if query.args.get("group") is not None and query.args["group"].args.get("all"):
            keys = [values for select, values in columns if not _adds_up(select)]
            decided += [value for values in keys for value in values.values()]
        if len(read) == 1 and not chosen and not decided and not kinds:
            return Rows(read[0], named)
        return Rows(_together([*read, *decided, *chosen], " ".join(kinds)), named)

    def _columns(self, scope: Scope, query: exp.Select) -> list[tuple[exp.Expr, dict[str, Value]]]:
        """Of each expression its columns: a function that makes rows may have several."""
        found: list[tuple[exp.Expr, dict[str, Value]]] = []
        own: dict[str, Value] = {}
        for select in query.selects:
            several = isinstance(select, exp.Aliases)
            parts = select.expressions if several else [select]
            value = self._value(scope, select.this if several else select.unalias(), own)
            made = {
                part.alias_or_name.lower(): _nth(value, n) if several else value
                for n, part in enumerate(parts)
            }
            if made.keys() & {"", "*"} or made.keys() & own.keys():
                raise Unclear("a column without a name of its own")
            own |= made
            found.append((select, made))
        return found

    def _of_function(self, scope: Scope, query: exp.UDTF) -> Rows:
        parts = query.expressions or [query.this]
        if isinstance(query, exp.Lateral) and isinstance(query.this, exp.Subquery):
            raise Unclear("LATERAL with a statement")
        return _each(_together([self._value(scope, part) for part in parts], type(query).__name__))

    def _source(self, source: exp.Table | Scope) -> Rows:
        if isinstance(source, Scope):
            return self.rows(source)
        if isinstance(source.this, exp.Func):
            return _each(Value(_NOTHING, _short(source.this.sql(self._dialect, comments=False))))
        found = self._relations.get(source.name.lower())
        if found is None or source.args.get("db"):
            raise Unclear(source.name)
        return found

    def _value(self, scope: Scope, node: exp.Expr, own: Mapping[str, Value] | None = None) -> Value:
        """Of an expression, with the statements in it. `own` are columns of the SELECT that it
        stands in."""
        found: list[Value] = []
        inner = {id(each.expression): each for each in scope.subquery_scopes}
        for part in _outside_of_queries(node, inner):
            if id(part) in inner:
                value = _whole(self.rows(inner[id(part)]))
            elif isinstance(part, exp.Column):
                value = self._column(scope, part, own or {})
            elif isinstance(part, exp.Placeholder):
                value = Value(_NOTHING, self._words.get(part.name, f":{part.name}"))
            else:
                continue
            part.meta[_MEANS] = value.meaning
            found.append(value)
        origins = frozenset(chain.from_iterable(value.origins for value in found))
        if isinstance(node, exp.Column):
            return found[0]
        return Value(origins, _short(node.transform(_put).sql(self._dialect, comments=False)))

    def _column(self, scope: Scope, column: exp.Column, own: Mapping[str, Value]) -> Value:
        name, table = column.name.lower(), column.table
        if not table:
            if name in own:
                return own[name]
            table = _only_source(scope)
        at: Scope | None = scope
        while at is not None:
            if table in at.sources:
                return self._told_apart(at, table, name)
            at = at.parent
        raise Unclear(f"{table}.{name}")

    def _told_apart(self, scope: Scope, table: str, name: str) -> Value:
        """Of something that is joined with itself, which of the two it is counts."""
        rows = self._source(scope.sources[table])
        value = rows.column(name)
        if len(scope.selected_sources) > 1:
            same = [
                alias
                for alias, (_, source) in scope.selected_sources.items()
                if alias == table or self._source(source).kept.meaning == rows.kept.meaning
            ]
            if table in same and len(same) > 1:
                return Value(value.origins, f"{value.meaning}@{same.index(table)}")
        return value


def _outside_of_queries(node: exp.Expr, inner: Mapping[int, Scope]) -> Iterator[exp.Expr]:
    """The node and all below it. What a statement in it says is said by its own scope."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if id(part) in inner or isinstance(part, exp.Column):
            continue
        if isinstance(part, exp.Query) and not isinstance(part, exp.Subquery):
            raise Unclear("a statement where none is expected")
        waiting += part.iter_expressions()


def _only_source(scope: Scope) -> str:
    """Whose a column is that names nobody. In a statement within another it may be of either."""
    if len(scope.selected_sources) != 1 or scope.is_subquery:
        raise Unclear("it may be of several")
    return next(iter(scope.selected_sources))


def _put(node: exp.Expr) -> exp.Expr:
    means = node.meta.get(_MEANS)
    return node if means is None else exp.Var(this=means)


def _nth(value: Value, n: int) -> Value:
    return Value(value.origins, f"{value.meaning}:{n}")


def _each(value: Value) -> Rows:
    return Rows(value, each=value)


def _whole(rows: Rows) -> Value:
    return _together([rows.kept, *rows.columns.values()])


def _together(values: Sequence[Value], kind: str = "") -> Value:
    origins = frozenset(chain.from_iterable(value.origins for value in values))
    return Value(origins, _short(digest([kind, *(value.meaning for value in values)])))


def _short(text: str) -> str:
    return digest(text)[:_DIGITS]


def _deciding(query: exp.Select) -> Iterator[exp.Expr]:
    """What of a SELECT decides which rows it has, beside what it reads."""
    for join in query.args.get("joins") or ():
        if join.args.get("on") is not None:
            yield join.args["on"]
    for name in ("where", "group", "having", "qualify", "sample"):
        if query.args.get(name) is not None:
            yield query.args[name]
    yield from query.args.get("windows") or ()
    yield from _ends(query)


def _ends(query: exp.Query) -> Iterator[exp.Expr]:
    """An order decides nothing unless rows are left out at its end."""
    limits = [query.args[name] for name in ("limit", "offset") if query.args.get(name)]
    if limits and query.args.get("order") is not None:
        yield query.args["order"]
    yield from limits


def _kinds(query: exp.Select) -> list[str]:
    """What of that has no columns."""
    joins = [
        f"{join.method} {join.side} {join.kind or 'JOIN'}".strip().upper()
        for join in query.args.get("joins") or ()
    ]
    if query.args.get("distinct") is not None:
        joins.append("DISTINCT")
    if query.args.get("group") is None and any(map(_adds_up, query.selects)):
        joins.append("ONE ROW")
    return joins


def _adds_up(select: exp.Expr) -> bool:
    return any(
        isinstance(each, exp.AggFunc) and not isinstance(each.parent, exp.Window)
        for each in _without_queries(select)
    )


def _makes_rows(select: exp.Expr) -> bool:
    return any(
        isinstance(each, exp.UDTF)
        or (isinstance(each, exp.Anonymous) and each.name.lower() in _MAKE_ROWS)
        for each in _without_queries(select)
    )


def _without_queries(node: exp.Expr) -> Iterator[exp.Expr]:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, exp.Query):
            yield part
            waiting += part.iter_expressions()
