"""Datasets as `trace sql` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, clock, printable, roughly
from trace_platform.wire.dataset import DatasetVersion
from trace_platform.wire.query import DatasetList, DatasetPage, DatasetSummary

# Of its versions, the newest.
_SHOWN_VERSIONS = 10


def show_datasets(console: Console, found: DatasetList) -> None:
    if not found.datasets:
        console.print("nothing is published")
        return
    show_table(
        console,
        ("dataset", "rows", "newest", "state", "version", "description"),
        [_summary(each) for each in found.datasets],
        right=("rows",),
        prose=("description",),
    )


def show_dataset(console: Console, page: DatasetPage) -> None:
    """Facts, columns and versions."""
    detail = page.detail
    about = f": {printable(detail.description)}" if detail.description else ""
    newest = f"the newest {ago(detail.newest_at)}" if detail.newest_at else "nothing came yet"
    rows = roughly(detail.rows, detail.rows_estimated)
    facts = f"{detail.dataset}{about}\n{rows} rows, {newest}; {printable(detail.answer)}\n"
    console.print(facts, highlight=False, markup=False, soft_wrap=True)
    if page.columns:
        heads = ("column", "type", "", "description")
        show_table(console, heads, list(_columns(page)), prose=("description",))
        console.print()
    show_table(
        console,
        ("version", "since (UTC)", "rows", ""),
        [_version(detail.dataset, each) for each in page.versions[:_SHOWN_VERSIONS]],
        right=("rows",),
    )


def _version(dataset: str, each: DatasetVersion) -> tuple[str, ...]:
    name = f"{dataset}@{str(each.dataset_version)[:8]}"
    rows = roughly(each.rows, each.rows_estimated)
    return escape(name), clock(each.created_at), rows, _standing(each)


def _columns(page: DatasetPage) -> Iterator[tuple[str, ...]]:
    said = page.detail.columns or {}
    pii = {name.lower() for name in page.detail.pii}
    for column in page.columns or []:
        about = str(said.get(column.name, {}).get("description") or "")
        personal = "personal" if column.name.lower() in pii else ""
        yield (
            escape(printable(column.name)),
            escape(column.type),
            personal,
            escape(printable(about)),
        )


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
