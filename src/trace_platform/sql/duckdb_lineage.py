"""What the columns of a statement for queries are made of. Where its columns are known DuckDB has
bound it before: sqlglot only finds out whose they are, and what it does not know has no lineage."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from trace_platform.sql.checks import Answer, Question
from trace_platform.sql.derivation import Derivation
from trace_platform.sql.derive import derive, rows_of_input

_DIALECT = "duckdb"
# What is longer holds data rather than logic, and takes long to be read.
_MOST_CHARS = 20_000
_ANY = "VARCHAR"
# What sqlglot calls a column without a name.
_UNNAMED = "_col_"
# It says itself what it does not know.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)


def derivation_of(question: Question, answer: Answer) -> Derivation | None:
    """`answer` is what DuckDB says of the statement. None where it cannot be told."""
    if answer.problems or len(question.sql) > _MOST_CHARS:
        return None
    schema = MappingSchema(
        {
            name.lower(): {column.name.lower(): column.type or _ANY for column in each.columns}
            for name, each in question.relations.items()
            if each.columns
        },
        dialect=_DIALECT,
    )
    try:
        tree = sqlglot.parse_one(question.sql, read=_DIALECT)
        if not isinstance(tree, exp.Query):
            return None
        bound = qualify(
            tree,
            dialect=_DIALECT,
            schema=schema,
            validate_qualify_columns=False,
            allow_partial_qualification=True,
            quote_identifiers=False,
        )
    except (SqlglotError, KeyError, ValueError, AttributeError):
        return None
    types = {column.name.lower(): column.type for column in answer.columns or ()}
    relations = {
        name.lower(): rows_of_input(each.source or name)
        for name, each in question.relations.items()
    }
    found = derive(bound, types, relations, {}, _DIALECT)
    return found if found is not None and _is_named(found, answer, types) else None


def _is_named(found: Derivation, answer: Answer, types: Mapping[str, str]) -> bool:
    """A star that was read otherwise than by DuckDB shows in the names. Those that nobody gives are
    DuckDB's own."""
    names = [column.name for column in found.columns]
    if answer.columns is not None:
        return names == list(types)
    return not any(name.startswith(_UNNAMED) for name in names)
