"""Datasets as `trace sql` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from trace_platform.cli.words import ago, clock, printable, roughly
from trace_platform.wire.dataset import DatasetVersion
from trace_platform.wire.query import DatasetList, DatasetPage, DatasetSummary

# Of its versions, the newest.
_SHOWN_VERSIONS = 10


def dataset_table(found: DatasetList) -> Table | str:
    if not found.datasets:
        return "nothing is published"
    table = _table("dataset", "rows", "newest", "state", "version", "description")
    for each in found.datasets:
        table.add_row(*_summary(each))
    return table


def dataset_lines(page: DatasetPage) -> Iterator[Table | str]:
    """Facts, columns and versions."""
    detail = page.detail
    about = f": {printable(detail.description)}" if detail.description else ""
    yield escape(f"{detail.dataset}{about}")
    newest = f"the newest {ago(detail.newest_at)}" if detail.newest_at else "nothing came yet"
    rows = roughly(detail.rows, detail.rows_estimated)
    yield escape(f"{rows} rows, {newest}; {printable(detail.answer)}")
    if page.columns:
        yield ""
        yield _columns(page)
    yield ""
    versions = _table("version", "since (UTC)", "rows", "")
    for each in page.versions[:_SHOWN_VERSIONS]:
        name = f"{detail.dataset}@{str(each.dataset_version)[:8]}"
        rows = roughly(each.rows, each.rows_estimated)
        versions.add_row(escape(name), clock(each.created_at), rows, _standing(each))
    yield versions


def _columns(page: DatasetPage) -> Table:
    said = page.detail.columns or {}
    pii = {name.lower() for name in page.detail.pii}
    table = _table("column", "type", "", "description")
    for column in page.columns or []:
        about = str(said.get(column.name, {}).get("description") or "")
        personal = "personal" if column.name.lower() in pii else ""
        table.add_row(escape(column.name), column.type, personal, escape(printable(about)))
    return table


def _summary(each: DatasetSummary) -> tuple[str, ...]:
    return (
        escape(each.name),
        roughly(each.row_count, each.rows_estimated),
        ago(each.newest_at),
        each.state,
        str(each.dataset_version)[:8],
        escape(printable(each.description or "")),
    )


def _standing(each: DatasetVersion) -> str:
    if each.purged_at:
        return "purged"
    if each.building:
        return "building"
    return "current" if each.current else ""


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name == "rows" else "left")
    return table
