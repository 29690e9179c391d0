"""Types as queries name them and as Spark does."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

_Type = exp.DataType.Type

# What is stored of a value of Spark's, as queries see it. Of others nobody knows it before it runs.
_STORED = {
    _Type.BIGINT: "BIGINT",
    _Type.INT: "INTEGER",
    _Type.SMALLINT: "SMALLINT",
    _Type.TINYINT: "TINYINT",
    _Type.DOUBLE: "DOUBLE",
    _Type.FLOAT: "FLOAT",
    _Type.BOOLEAN: "BOOLEAN",
    _Type.TEXT: "VARCHAR",
    _Type.VARCHAR: "VARCHAR",
    _Type.BINARY: "BLOB",
    _Type.DATE: "DATE",
    _Type.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
    _Type.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    _Type.TIMESTAMPLTZ: "TIMESTAMP WITH TIME ZONE",
    _Type.TIMESTAMPNTZ: "TIMESTAMP",
}
# Spark has no unsigned integers: it reads the next wider type.
_READ = {
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}


def spark_type(duckdb: str) -> str | None:
    """None for one that nobody knows."""
    if duckdb in _READ:
        return _READ[duckdb]
    try:
        return exp.DataType.build(duckdb, dialect="duckdb").sql("spark") if duckdb else None
    except SqlglotError:
        return None


def duckdb_type(found: exp.DataType | None) -> str:
    """Empty where that cannot be told."""
    if found is None:
        return ""
    if found.this is _Type.DECIMAL and len(found.expressions) == 2:
        precision, scale = (each.name for each in found.expressions)
        return f"DECIMAL({precision},{scale})"
    return _STORED.get(found.this, "") if isinstance(found.this, _Type) else ""
