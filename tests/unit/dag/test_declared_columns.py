"""A declared type, and which types of Arrow are one."""

from __future__ import annotations

import pyarrow as pa

from tests.support.corpus import corpus
from trace_platform.dag.model.declared_columns import fits, fits_table, misfits
from trace_platform.dag.model.publish import PLAIN_TYPES
from trace_platform.wire.manifest import ManifestColumn

# Each declared type with all that it is, among these.
ARROW = {
    "bool": [pa.bool_()],
    **{f"{sign}int{bits}": [getattr(pa, f"{sign}int{bits}")()] for sign in ("", "u")
       for bits in (8, 16, 32, 64)},
    "float32": [pa.float32()],
    "float64": [pa.float64()],
    "string": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "binary": [pa.binary(), pa.large_binary(), pa.binary(20), pa.binary(32)],
    "binary(20)": [pa.binary(), pa.large_binary(), pa.binary(20)],
    "decimal(38,0)": [pa.decimal128(38, 0)],
    "decimal(5,2)": [pa.decimal128(5, 2), pa.decimal32(5, 2)],
    "date": [pa.date32(), pa.date64()],
    "timestamp": [pa.timestamp("us"), pa.timestamp("ms", tz="UTC"), pa.timestamp("ns")],
    "json": [
        pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.int64()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int64()),
    ],
}  # fmt: skip
ALL = [kind for kinds in ARROW.values() for kind in kinds] + [pa.time32("s"), pa.float16()]


def test_every_plain_type_is_known() -> None:
    assert set(PLAIN_TYPES) <= set(ARROW)


@corpus("declared", ARROW)
def test_a_declared_type_is_these_types_of_arrow_and_no_other(declared: str) -> None:
    found = {str(kind) for kind in ALL if fits(declared, str(kind))}
    assert found == {str(kind) for kind in ARROW[declared]}
    assert fits(declared, str(pa.null())), "no value so far"


def test_a_table_holds_what_its_columns_can_be() -> None:
    held = {declared for declared in ARROW if fits_table(declared)}
    assert held == {
        "bool", "int64", "float64", "string", "json", "binary", "binary(20)",
        "decimal(38,0)", "decimal(5,2)",
    }  # fmt: skip


def test_what_is_missing_or_another_type_is_named_and_what_is_more_is_not() -> None:
    declared = {"day": {"type": "date"}, "Token": {"type": "binary(20)"}, "n": {"type": "int64"}}
    committed = [
        ManifestColumn(name="token", type="binary", nullable=False),
        ManifestColumn(name="day", type="string", nullable=True),
        ManifestColumn(name="more", type="double", nullable=True),
    ]
    assert [str(each) for each in misfits(declared, committed)] == [
        "column 'day' is string, declared date",
        "column 'n' (int64) is missing",
    ]
