"""Whether the steps of a program fit the columns that they read, and which columns they make.

Nothing runs: sqlglot finds out which name means which column. What it cannot tell is left to Spark,
so that no statement is refused that would run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from trace_platform.domain.alike import alike, did_you_mean, listed
from trace_platform.sql.checks import Answer, Problem, Program, Readable
from trace_platform.sql.derive import Rows, derive, rows_of_input, rows_of_step
from trace_platform.sql.relations import Column
from trace_platform.sql.spark.read import DIALECT, Refused, place_of, problem, read
from trace_platform.sql.spark.types import duckdb_type, spark_type

_SHOWN = 12
_ALIKE = 3
_NOTHING = Readable()
# Of lineage in an answer, and of SQL that it is looked for in: it must not cost a program the time
# that it has to be checked.
_MOST_ORIGINS = 20_000
_MOST_CHARS = 150_000
# Of a column whose type nobody can tell: what is computed from it has none either.
_ANY = "UNKNOWN"


def bind(program: Program, relations: Mapping[str, Readable]) -> Answer:
    """Of each step what is wrong, at its place, and its columns where they can be told."""
    known = {name.lower(): readable for name, readable in relations.items()}
    made_of = {name: rows_of_input(each.source or name) for name, each in known.items()}
    if sum(len(step.sql) for step in program.steps) > _MOST_CHARS:
        made_of.clear()
    answers = []
    for step in program.steps:
        answer = _step(step.sql, program, known, made_of)
        answers.append(answer)
        # What reads a step that is wrong is not blamed for it.
        known[step.name.lower()] = Readable(columns=answer.named)
        made_of.pop(step.name.lower(), None)
        if answer.derivation is not None:
            made_of[step.name.lower()] = rows_of_step(answer.derivation)
    return Answer(steps=_bounded(answers))


def _bounded(answers: Sequence[Answer]) -> list[Answer]:
    """Lineage of more columns than anybody looks at is left out: an answer is one line."""
    left, found = _MOST_ORIGINS, []
    for answer in answers:
        if answer.derivation is not None:
            left -= sum(1 + len(column.origins) for column in answer.derivation.columns)
        found.append(answer if left >= 0 else structs.replace(answer, derivation=None))
    return found


def _step(
    sql: str, program: Program, known: Mapping[str, Readable], made_of: Mapping[str, Rows]
) -> Answer:
    try:
        tree = read(sql, program.words)
    except Refused as refused:
        return Answer(problems=refused.problems)
    tables = tables_of(tree)
    problems = [each for table in tables for each in _unreadable(table, sql, known)]
    problems += [*_unnamed(tree, sql), *_mixed_sums(tree, sql)]
    if problems:
        return Answer(problems=problems)
    schema, whole = _schema(tables, known)
    try:
        own = _own_names(tree)
        bound = _qualified(tree, schema)
        answer = _bound(bound, sql, schema, own) if whole else Answer()
        if answer.problems:
            return answer
        types = {column.name: column.type for column in answer.columns or ()}
        derivation = derive(bound, types, made_of, program.values, DIALECT)
        return structs.replace(answer, derivation=derivation)
    except (SqlglotError, KeyError, ValueError, AttributeError):
        # It knows less of the language than Spark does.
        return Answer()


def _qualified(tree: exp.Query, schema: MappingSchema) -> exp.Query:
    return qualify(
        tree,
        dialect=DIALECT,
        schema=schema,
        validate_qualify_columns=False,
        allow_partial_qualification=True,
        quote_identifiers=False,
    )


def _bound(bound: exp.Query, sql: str, schema: MappingSchema, own: set[str]) -> Answer:
    scopes = traverse_scope(bound)
    problems = [p for scope in scopes for p in _unknown_columns(scope, sql, schema, own)]
    typed = annotate_types(bound, schema=schema, dialect=DIALECT)
    problems += _hex_for_bytes(typed, sql)
    if problems:
        return Answer(problems=_in_order(problems))
    return Answer(columns=_columns(typed))


def tables_of(tree: exp.Query) -> list[exp.Table]:
    """What stands for rows of others: no WITH of the statement's own, and no function."""
    found = []
    for scope in traverse_scope(tree):
        for name, source in scope.sources.items():
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
                found.append((name, source))
    return list({id(table): table for _, table in found}.values())


def _unnamed(tree: exp.Query, sql: str) -> Iterator[Problem]:
    """Readers would have to call it as Spark writes the expression."""
    for select in tree.selects:
        star = isinstance(select, exp.Column) and isinstance(select.this, exp.Star)
        if star or isinstance(select, exp.Star | exp.Aliases):
            continue
        if select.alias_or_name in ("", "*"):
            yield problem("this column has no name: write AS and a name", sql, place_of(select))


def _mixed_sums(tree: exp.Query, sql: str) -> Iterator[Problem]:
    """What Spark finds out when it plans the job, and names no place for."""
    for select in tree.find_all(exp.Select):
        own = list(_without_queries(select))
        exact = [each for each in own if isinstance(each, exp.Anonymous) and _is_exact(each)]
        if exact and any(isinstance(each, exp.AggFunc) for each in own):
            said = "sum_exact stands beside no other aggregate in one SELECT: give it a step of its"
            cure = "own, or write sum(cast(… as decimal(38, 0))), exact up to 38 digits"
            yield problem(f"{said} {cure}", sql, place_of(exact[0]))


def _without_queries(select: exp.Select) -> Iterator[exp.Expr]:
    waiting = list(select.iter_expressions())
    while waiting:
        node = waiting.pop()
        if not isinstance(node, exp.Query):
            yield node
            waiting += node.iter_expressions()


def _is_exact(call: exp.Anonymous) -> bool:
    return call.name.lower() == "sum_exact"


def _unreadable(table: exp.Table, sql: str, known: Mapping[str, Readable]) -> Iterator[Problem]:
    readable = known.get(table.name.lower())
    said = None
    if readable is None:
        meant = did_you_mean(alike(table.name.lower(), known, _ALIKE))
        reads = f"it reads {listed(list(known), _SHOWN)}" if known else "the job has no inputs"
        said = f"{table.name!r} is no input of the job and no earlier step; {meant or reads}"
    elif readable.refused is not None:
        said = f"{table.name!r} has no rows: {readable.refused}"
    if said is not None:
        yield problem(said, sql, place_of(table.this))


def _schema(
    tables: Sequence[exp.Table], known: Mapping[str, Readable]
) -> tuple[MappingSchema, bool]:
    """Of those whose columns are known, and whether these are all."""
    found: dict[str, object] = {}
    whole = True
    for table in tables:
        columns = known.get(table.name.lower(), _NOTHING).columns
        if not columns:
            whole = False
            continue
        found[table.name.lower()] = {
            column.name.lower(): spark_type(column.type) or _ANY for column in columns
        }
    return MappingSchema(found, dialect=DIALECT), whole


def _own_names(tree: exp.Query) -> set[str]:
    """Names that the statement makes itself, wherever: what is called so is left to Spark."""
    found = {each.alias.lower() for each in tree.find_all(exp.Alias, exp.PropertyEQ) if each.alias}
    for alias in tree.find_all(exp.TableAlias):
        found |= {column.name.lower() for column in alias.args.get("columns") or ()}
    for function in tree.find_all(exp.Lambda):
        found |= {each.name.lower() for each in function.expressions}
    if tree.find(exp.Pivot):
        found.add("*")
    return found


def _unknown_columns(
    scope: Scope, sql: str, schema: MappingSchema, own: set[str]
) -> Iterator[Problem]:
    if "*" in own:
        return
    there = {name: _columns_of(source, schema) for name, source in scope.sources.items()}
    if any(columns is None for columns in there.values()):
        return
    for column in scope.columns:
        name, table = column.name.lower(), column.table.lower()
        if table and table not in there:
            continue
        asked = [each or [] for n, each in there.items() if not table or n == table]
        known = sorted({name for each in asked for name in each})
        if name == "*" or name in known or (not table and name in own):
            continue
        if not table and scope.is_subquery and scope.parent is not None:
            # Of the statement around it, perhaps, which is asked as well.
            outer = [_columns_of(s, schema) for s in scope.parent.sources.values()]
            if any(columns is None or name in columns for columns in outer):
                continue
        cure = did_you_mean(alike(name, known, _ALIKE)) or f"there are {listed(known, _SHOWN)}"
        yield problem(f"there is no column {column.name!r}; {cure}", sql, place_of(column.this))


def _columns_of(source: exp.Table | Scope, schema: MappingSchema) -> list[str] | None:
    """None where that cannot be told."""
    if isinstance(source, Scope):
        query = source.expression
        if not isinstance(query, exp.Query):
            return None
        names = [name.lower() for name in query.named_selects]
        return None if "*" in names or "" in names else names
    found = [name.lower() for name in schema.column_names(source)]
    return found or None


def _hex_for_bytes(tree: exp.Query, sql: str) -> Iterator[Problem]:
    """Bytes equal no text: a statement that asks for `address = '0x…'` finds nothing, and says so
    to nobody."""
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ):
        other = node.args.get("expression")
        sides = [node.this, *node.expressions, *([other] if other else [])]
        text = next((side for side in sides if _is_hex(side)), None)
        if text is not None and any(side.is_type(exp.DataType.Type.BINARY) for side in sides):
            cut = text.name[2:12] + ("…" if len(text.name) > 12 else "")
            said = f"bytes are compared with text, and are never equal: write X'{cut}'"
            yield problem(said, sql, place_of(node))


def _is_hex(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and node.name[:2] == "0x"


def _columns(tree: exp.Query) -> list[Column] | None:
    names = [name.lower() for name in tree.named_selects]
    if not names or "*" in names or "" in names or len(set(names)) < len(names):
        return None
    if len(names) != len(tree.selects):
        # Of a function that makes several columns.
        return None
    return [
        Column(name, duckdb_type(select.type))
        for name, select in zip(names, tree.selects, strict=True)
    ]


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    found: dict[tuple[int, int], Problem] = {}
    for each in problems:
        found.setdefault((each.line or 0, each.column or 0), each)
    return [found[place] for place in sorted(found)]
