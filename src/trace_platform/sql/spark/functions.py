"""The functions that the Spark SQL of a DAG may call, by name.

`functions.txt` is what Spark itself has (`SHOW SYSTEM FUNCTIONS`); a test compares them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

# Of chain data: every session of an operator has them (operators/spark/chain_functions.py).
CHAIN = frozenset(
    {
        "bytes_to_int", "bytes_to_uint", "checksum_address", "div_exact", "from_hex", "from_units",
        "from_wei", "keccak256", "mod_exact", "mul_exact", "selector", "sum_exact", "to_0x",
        "topic", "uint_to_bytes", "unhex",
    }
)  # fmt: skip
# Of transforms alone (operators/transform/private_session.py).
MACROS = frozenset({"block_bucket"})

# They run code or tell about the machine and its files; or their rows are other ones every time.
REFUSED = frozenset(
    {
        "current_catalog", "current_database", "current_path", "current_schema", "current_user",
        "from_avro", "from_protobuf", "identifier", "input_file_block_length",
        "input_file_block_start", "input_file_name", "java_method", "monotonically_increasing_id",
        "python_worker_logs", "reflect", "schema_of_avro", "session_user", "spark_partition_id",
        "to_avro", "to_protobuf", "try_reflect", "user", "version",
    }
)  # fmt: skip
# Words of the language that stand before a bracket as functions do.
WORDS = frozenset(
    {
        "all", "any", "array", "between", "case", "cast", "columns", "count", "cube", "date",
        "distinct", "exists", "extract", "filter", "grouping", "in", "interval", "lambda", "map",
        "nullif", "overlay", "position", "rollup", "row", "some", "struct", "substring",
        "timestamp", "timestamp_ltz", "timestamp_ntz", "trim", "try_cast", "unnest", "values",
    }
)  # fmt: skip


@cache
def of_spark() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("functions.txt").read_text().split())


@cache
def allowed() -> frozenset[str]:
    return (of_spark() | CHAIN | MACROS) - REFUSED
