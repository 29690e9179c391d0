"""What the catalog of a caller holds: what is published, or what a task's token grants."""

from __future__ import annotations

from collections.abc import Sequence

from trace_platform.drivers.task_token import GrantedDataset
from trace_platform.query.protocol.messages import Relation
from trace_platform.query.protocol.relation import masked_columns
from trace_platform.query.service.callers import Caller
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.sql.relations import Column, Described
from trace_platform.wire.query import (
    MAX_DATASETS,
    DatasetRef,
    DatasetSummary,
    QueryColumn,
    ResolvedDataset,
)


async def described(caller: Caller, dispatcher: DispatcherClient) -> list[Described]:
    if caller.grants is None:
        found = (await dispatcher.datasets()).datasets
        return [_published(each, caller) for each in found]
    refs = [DatasetRef(dataset_version=grant.dataset_version) for grant in caller.grants]
    granted: list[ResolvedDataset] = []
    for some in range(0, len(refs), MAX_DATASETS):
        granted += await dispatcher.resolve(refs[some : some + MAX_DATASETS], files=False)
    pairs = zip(caller.grants, granted, strict=True)
    # Of two with one alias the first is what the alias means.
    by_alias = {grant.alias: (grant, dataset) for grant, dataset in reversed(list(pairs))}
    return [_granted(*each, caller) for each in by_alias.values()]


def _published(dataset: DatasetSummary, caller: Caller) -> Described:
    columns = _columns(dataset.columns)
    return Described(
        name=dataset.name,
        columns=columns,
        masked=[] if caller.sees_name(dataset.name) else _masked(columns, dataset.pii, ()),
        comment=dataset.description,
        rows=dataset.row_count,
    )


def _granted(grant: GrantedDataset, dataset: ResolvedDataset, caller: Caller) -> Described:
    """Without its rows: a token may grant some of them."""
    columns = _columns(dataset.columns)
    hidden = [] if caller.sees(dataset) else _masked(columns, dataset.pii, dataset.not_personal)
    return Described(name=grant.alias, columns=columns, masked=hidden)


def _columns(columns: Sequence[QueryColumn] | None) -> list[Column]:
    return [Column(each.name, each.type) for each in columns or ()]


def _masked(
    columns: Sequence[Column], personal: Sequence[str], not_personal: Sequence[str]
) -> list[str]:
    relation = Relation(view="", masked=list(personal), not_personal=list(not_personal))
    return masked_columns(relation, columns)
