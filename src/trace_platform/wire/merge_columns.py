"""How the columns of a generation grow: what one commit may change, and what needs a new one."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.wire.column_type import stored_name, without_inner_names
from trace_platform.wire.manifest import ManifestColumn

_CURE = (
    "the job needs a new generation: change its definition, then `trace plan` shows what is rebuilt"
)


def merge_columns(
    known: Sequence[ManifestColumn], given: Sequence[ManifestColumn]
) -> list[ManifestColumn]:
    """The columns of both, in the order of their first appearance. Nullable ones may come, and be
    missing; one that is nullable in either is so: engines make columns nullable as they please.
    Everything else stays as it is. Raise IncompatibleSchema, naming the column, when it does
    not."""
    names = {column.name.lower(): column for column in known}
    for column in given:
        before = names.setdefault(column.name.lower(), column)
        if before.name != column.name or stored_name(before.type) != stored_name(column.type):
            raise _changed(before, column)
        names[column.name.lower()] = _of_both(before, column)
        if known and before is column and not column.nullable:
            raise incompatible(
                f"column '{column.name}' ({said(column)}) is new and required: "
                "what is committed already has no value for it",
                column=column.name,
            )
    there = {column.name for column in given}
    for column in known:
        if column.name not in there and not column.nullable:
            raise incompatible(
                f"column '{column.name}' ({said(column)}) is required and missing",
                column=column.name,
            )
    return list(names.values())


def _of_both(before: ManifestColumn, column: ManifestColumn) -> ManifestColumn:
    nullable = before.nullable or column.nullable
    if before.type == column.type:
        return column.model_copy(update={"nullable": nullable})
    plain = without_inner_names(column.type)
    same = plain == without_inner_names(before.type)
    kind = plain if same else stored_name(column.type)
    return column.model_copy(update={"type": kind, "nullable": nullable})


def _changed(before: ManifestColumn, column: ManifestColumn) -> IncompatibleSchema:
    if before.name != column.name:
        return incompatible(
            f"columns '{before.name}' and '{column.name}' differ in case alone", column=column.name
        )
    return incompatible(
        f"column '{column.name}' is {said(column)}, and {said(before)} in what is committed",
        column=column.name,
    )


def said(column: ManifestColumn) -> str:
    return f"{column.type}, {'optional' if column.nullable else 'required'}"


def incompatible(message: str, **facts: object) -> IncompatibleSchema:
    return IncompatibleSchema(message, hint=_CURE, **facts)
