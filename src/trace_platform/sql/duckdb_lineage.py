"""What the columns of a statement for queries are made of. DuckDB has bound it before: sqlglot only
finds out whose columns it names, and what it does not know has no lineage."""

from __future__ import annotations

import logging

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
# It says itself what it does not know.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)


def derivation_of(question: Question, answer: Answer) -> Derivation | None:
    """`answer` is what DuckDB says of the statement. None where it cannot be told."""
    if answer.columns is None or len(question.sql) > _MOST_CHARS:
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
    types = {column.name.lower(): column.type for column in answer.columns}
    relations = {
        name.lower(): rows_of_input(each.source or name)
        for name, each in question.relations.items()
    }
    found = derive(bound, types, relations, {}, _DIALECT)
    # A star that was read otherwise than by DuckDB would show here.
    if found is None or [c.name for c in found.columns] != list(types):
        return None
    return found
