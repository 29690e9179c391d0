"""What the names of a statement stand for: published datasets, or exactly what a token grants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn
from uuid import UUID

from trace_platform.domain.alike import meant
from trace_platform.domain.errors import (
    Conflict,
    InvalidQuery,
    NotFound,
    TraceError,
    UnknownDataset,
)
from trace_platform.domain.moment import moment_or_id
from trace_platform.drivers.task_token import GrantedDataset
from trace_platform.query.service.callers import Caller
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.sql.relations import Reference
from trace_platform.wire.query import MAX_DATASETS, DatasetRef, ResolvedDataset, UsedDataset


@dataclass(frozen=True, slots=True)
class Resolved:
    """A relation of a statement."""

    reference: Reference
    dataset: ResolvedDataset
    # Only rows that match.
    where: dict[str, Any] | None = None
    # Personal columns that the caller does not see.
    masked: tuple[str, ...] = ()
    # Of a task whose token names files: these. None: all of the generation.
    granted_files: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.dataset.name or self.reference.name

    @property
    def version(self) -> UUID:
        return self.dataset.dataset_version

    @property
    def files(self) -> Sequence[str]:
        return self.dataset.files if self.granted_files is None else self.granted_files

    def used(self, name: str, masked: Sequence[str]) -> UsedDataset:
        return UsedDataset(
            name=name,
            dataset_uuid=self.dataset.dataset_uuid,
            dataset_version=self.version,
            at=self.dataset.at,
            masked=list(masked),
        )

    @property
    def shown_pii(self) -> list[str]:
        return [] if self.masked else self.dataset.pii


async def resolve(
    references: Sequence[Reference], caller: Caller, at: str | None, dispatcher: DispatcherClient
) -> list[Resolved]:
    """Raise InvalidQuery, at the place of the name, for one that the caller cannot read."""
    if at is not None:
        moment_or_id(at)  # also of a statement that reads no dataset
    if not references:
        return []
    if caller.grants is not None:
        return await _granted(references, caller, caller.grants, at, dispatcher)
    refs = [_published(each, at) for each in references]
    try:
        found = await dispatcher.resolve(refs)
    except UnknownDataset as error:
        _refuse_unknown(error, references)
    return [_for_caller(*each, caller) for each in zip(references, found, strict=True)]


async def with_files_of_now(
    relations: Sequence[Resolved], dispatcher: DispatcherClient
) -> list[Resolved]:
    """The tables among them with the files that there are now: what has left a table since its
    snapshot was taken is in both, what had left it before is in the files."""
    tables = [each for each in relations if each.dataset.table]
    refs = [DatasetRef(dataset_version=each.version) for each in tables]
    newer = dict(zip(map(id, tables), await dispatcher.resolve(refs), strict=True))
    return [
        replace(each, dataset=_same_name(newer[id(each)], each)) if id(each) in newer else each
        for each in relations
    ]


def _same_name(newer: ResolvedDataset, known: Resolved) -> ResolvedDataset:
    return newer.model_copy(update={"name": known.dataset.name, "pii": known.dataset.pii})


def _published(reference: Reference, at: str | None) -> DatasetRef:
    pinned = reference.version is not None or reference.at is not None
    moment = reference.at if pinned else at
    return DatasetRef(name=reference.name, version=reference.version, at=moment)


def _for_caller(reference: Reference, dataset: ResolvedDataset, caller: Caller) -> Resolved:
    if caller.sees(dataset):
        return Resolved(reference, dataset)
    if dataset.pii_missing:
        _refuse_unmasked(reference, dataset)
    return Resolved(reference, dataset, masked=tuple(dataset.pii))


def _refuse_unmasked(reference: Reference, dataset: ResolvedDataset) -> NoReturn:
    """A name that is misspelt hides nothing: nobody knows which column was meant to be hidden."""
    missing = dataset.pii_missing[0]
    like = meant(missing, [column.name for column in dataset.columns or ()])
    raise Conflict(
        f"{reference.name!r} has no column {missing!r}, which its `pii` says is personal",
        hint=f"{like} correct `pii` in the DAG file, and deploy it".lstrip(),
        **_place(reference),
    )


async def _granted(
    references: Sequence[Reference],
    caller: Caller,
    grants: Sequence[GrantedDataset],
    at: str | None,
    dispatcher: DispatcherClient,
) -> list[Resolved]:
    refs = [DatasetRef(dataset_version=grant.dataset_version) for grant in grants]
    found: list[ResolvedDataset] = []
    for some in range(0, len(refs), MAX_DATASETS):
        found += await dispatcher.resolve(refs[some : some + MAX_DATASETS])
    granted = list(zip(grants, found, strict=True))
    # An alias is the task's own word: no published name takes its place.
    by_name = {grant.alias: (grant, dataset) for grant, dataset in reversed(granted)}
    for grant, dataset in granted:
        if dataset.name is not None:
            by_name.setdefault(dataset.name, (grant, dataset))
    if at is not None or any(each.version or each.at for each in references):
        raise InvalidQuery(
            "a task reads the versions that its token grants",
            hint="name the datasets without a version",
        )
    return [_for_task(each, by_name, caller) for each in references]


def _for_task(
    reference: Reference, by_name: dict[str, tuple[GrantedDataset, ResolvedDataset]], caller: Caller
) -> Resolved:
    if reference.name not in by_name:
        raise InvalidQuery(
            f"the token does not grant {reference.name!r}",
            hint=f"it grants {', '.join(by_name) or 'no dataset'}",
            **_place(reference),
        )
    grant, dataset = by_name[reference.name]
    if dataset.merges and not grant.whole:
        raise InvalidQuery(
            f"{reference.name!r} has results that add up over all blocks, and the task reads a"
            " part of them",
            hint="read it with a sql_transform of mode: full",
            **_place(reference),
        )
    files = None if grant.whole else tuple(grant.files)
    shown = _for_caller(reference, dataset, caller)
    return replace(shown, where=grant.filter or None, granted_files=files)


def _refuse_unknown(error: UnknownDataset, references: Sequence[Reference]) -> NoReturn:
    named = next((each for each in references if each.name == error.facts.get("name")), None)
    place = _place(named) if named is not None else {}
    facts = {name: value for name, value in error.facts.items() if name not in place}
    raise InvalidQuery(error.message, hint=error.hint, **facts, **place) from None


def _place(reference: Reference) -> dict[str, Any]:
    found = {"line": reference.line, "column": reference.column}
    return {name: value for name, value in found.items() if value is not None}


def no_data(relation: Resolved) -> TraceError:
    return NotFound(
        f"the dataset {relation.reference.name!r} has no committed data yet",
        hint="wait for the job that writes it, or see `trace tasks list`",
    )
