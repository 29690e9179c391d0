"""What names stand for: what is published for a user, exactly what the token grants for a task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import (
    BadInput,
    Conflict,
    InvalidQuery,
    RangeNotReady,
    UnknownDataset,
)
from trace_platform.drivers.task_token import GrantedDataset, TaskClaims
from trace_platform.query.service.callers import Allowance, Caller, User
from trace_platform.query.service.dispatcher_client import DispatcherClient
from trace_platform.query.service.resolve import Resolved, resolve
from trace_platform.query.service.run_query import refuse_gap
from trace_platform.sql.relations import Reference
from trace_platform.wire.query import DatasetRef, QueryColumn, ResolvedDataset

ID = UUID(int=7)


def dataset(n: int, name: str | None = None, **facts: Any) -> ResolvedDataset:
    called = {"published_as": name, "label": name or f"dag.job.{n}"}
    return ResolvedDataset(
        name=name, dataset_uuid=UUID(int=n), dataset_version=UUID(int=100 + n), **called | facts
    )


class Known:
    """Of the Dispatcher: these datasets, by name and by generation."""

    def __init__(self, *datasets: ResolvedDataset) -> None:
        self._datasets = datasets
        self.asked: list[DatasetRef] = []

    async def resolve(self, refs: Sequence[DatasetRef]) -> list[ResolvedDataset]:
        self.asked += refs
        return [self._find(ref) for ref in refs]

    def _find(self, ref: DatasetRef) -> ResolvedDataset:
        for each in self._datasets:
            if (ref.name or ref.dataset_version) in (each.name, each.dataset_version):
                return each
        raise UnknownDataset(f"there is no dataset {ref.name!r}", name=ref.name, suggestions=["b"])


def found(
    known: Known, caller: Caller, *references: Reference, at: str | None = None
) -> list[Resolved]:
    return asyncio.run(resolve(references, caller, at, cast(DispatcherClient, known)))


def ref(name: str, **pin: Any) -> Reference:
    return Reference(view=name, name=name, **pin)


def user(*pii: str) -> Caller:
    return Allowance().user(User("ann", frozenset(pii)))


def task(*grants: GrantedDataset, trusted: bool = True) -> Caller:
    claims = TaskClaims(
        iss="",
        aud="",
        sub="",
        iat=0,
        exp=0,
        jti="",
        org_id=ID,
        task_id=ID,
        attempt=1,
        datasets=list(grants),
        read_prefixes=[],
        write_prefixes=[],
        trusted=trusted,
    )
    return Allowance().task(claims)


def grant(n: int, **facts: Any) -> GrantedDataset:
    return GrantedDataset(
        dataset_uuid=UUID(int=n),
        dataset_version=UUID(int=100 + n),
        alias=f"input_{n}",
        **facts,
    )


def test_a_moment_of_the_request_is_for_names_that_are_not_pinned() -> None:
    known = Known(dataset(1, "a"), dataset(2, "b"), dataset(3, "c"))
    then = "2026-01-31T12:00Z"
    found(known, user(), ref("a"), ref("b", version="abcd"), ref("c", at="later"), at=then)
    assert [(r.name, r.version, r.at) for r in known.asked] == [
        ("a", None, then),
        ("b", "abcd", None),
        ("c", None, "later"),
    ]


def test_what_is_no_moment_is_refused_also_where_nothing_is_read() -> None:
    assert found(Known(), user(), at="2026-01-31T12:00Z") == []
    with pytest.raises(BadInput, match="'yesterday' is no moment"):
        found(Known(), user(), at="yesterday")


def test_a_name_that_nobody_has_is_refused_at_its_place() -> None:
    with pytest.raises(InvalidQuery, match="no dataset 'x'") as refused:
        found(Known(dataset(1, "a")), user(), ref("a"), ref("x", line=3, column=9))
    assert refused.value.facts == {"name": "x", "suggestions": ["b"], "line": 3, "column": 9}


@pytest.mark.parametrize(
    ("grants", "masked"), [((), ("email",)), (("other",), ("email",)), (("a",), ()), (("*",), ())]
)
def test_personal_columns_are_masked_unless_granted(
    grants: tuple[str, ...], masked: tuple[str, ...]
) -> None:
    [one] = found(Known(dataset(1, "a", pii=["email"])), user(*grants), ref("a"))
    assert one.masked == masked
    assert one.shown_pii == ([] if masked else ["email"])


@pytest.mark.parametrize("grants", [("labels",), ("customers",), ("*",)])
def test_a_grant_is_of_the_dataset_that_has_the_name_now(grants: tuple[str, ...]) -> None:
    renamed = dataset(1, "labels", published_as="customers", pii=["email"])
    gone = dataset(2, "labels", published_as=None, pii=["email"])
    for each, opens in ((renamed, grants != ("labels",)), (gone, grants == ("*",))):
        [one] = found(Known(each), user(*grants), ref("labels", version="abcd"))
        assert one.masked == (() if opens else ("email",)), each.published_as


def test_a_personal_column_that_is_not_there_hides_nothing_so_nothing_is_shown() -> None:
    columns = [QueryColumn(name="Email", type="VARCHAR")]
    known = Known(dataset(1, "a", columns=columns, pii=["Emial"], pii_missing=["Emial"]))
    with pytest.raises(Conflict, match="'a' has no column 'Emial'") as refused:
        found(known, user("other"), ref("a", line=2, column=6))
    assert refused.value.hint == "did you mean Email? correct `pii` in the DAG file, and deploy it"
    assert refused.value.facts == {"line": 2, "column": 6}
    [one] = found(known, user("a"), ref("a"))
    assert one.masked == ()
    [one] = found(known, task(grant(1, whole=True)), ref("a"))
    assert one.masked == ()


def test_code_that_nobody_vouches_for_sees_personal_columns_like_a_user_without_grants() -> None:
    known = Known(dataset(1, "a", pii=["email"], files=["s3://x/1"]))
    for trusted, masked in ((True, ()), (False, ("email",))):
        caller = task(grant(1, files=["s3://x/1"], filter={"n": 1}), trusted=trusted)
        for name in ("a", "input_1"):
            [one] = found(known, caller, ref(name))
            assert (one.masked, list(one.files), one.where) == (masked, ["s3://x/1"], {"n": 1})
    misspelt = Known(dataset(1, "a", columns=[], pii=["emial"], pii_missing=["emial"]))
    with pytest.raises(Conflict, match="has no column 'emial'"):
        found(misspelt, task(grant(1, whole=True), trusted=False), ref("input_1"))


def test_a_task_reads_the_files_of_its_token_and_no_others() -> None:
    known = Known(dataset(1, "a", files=["s3://x/1", "s3://x/2"]), dataset(2, files=["s3://y/1"]))
    caller = task(grant(1, files=["s3://x/2"], filter={"n": 1}), grant(2))
    by_alias, by_name, none = found(known, caller, ref("input_1"), ref("a"), ref("input_2"))
    for each in (by_alias, by_name):
        assert (list(each.files), each.where) == (["s3://x/2"], {"n": 1})
    # No file lies in the task's range: that is none, and not all.
    assert list(none.files) == []


def test_a_task_that_was_granted_a_whole_dataset_reads_it_as_it_is_now() -> None:
    known = Known(dataset(1, files=["s3://x/1", "s3://x/2"]))
    [one] = found(known, task(grant(1, whole=True)), ref("input_1"))
    assert list(one.files) == ["s3://x/1", "s3://x/2"]


def test_an_alias_is_the_tasks_own_word() -> None:
    known = Known(dataset(0, "input_1", files=["s3://other/1"]), dataset(1, files=["s3://own/1"]))
    [one] = found(known, task(grant(0, whole=True), grant(1, whole=True)), ref("input_1"))
    assert list(one.files) == ["s3://own/1"]


def test_a_task_may_have_more_inputs_than_are_resolved_at_once() -> None:
    many = range(150)
    known = Known(*(dataset(n, files=[f"s3://x/{n}"]) for n in many))
    [one] = found(known, task(*(grant(n, whole=True) for n in many)), ref("input_149"))
    assert list(one.files) == ["s3://x/149"]


def test_a_task_reads_nothing_else() -> None:
    known = Known(dataset(1, "a"), dataset(2, "b"))
    with pytest.raises(InvalidQuery, match="does not grant 'b'") as refused:
        found(known, task(grant(1)), ref("b", line=1, column=6))
    assert refused.value.hint == "it grants input_1, a"
    for reference, at in ((ref("a", version="abcd"), None), (ref("a"), "2026-01-01T00:00:00Z")):
        with pytest.raises(InvalidQuery, match="versions that its token grants"):
            found(known, task(grant(1)), reference, at=at)


@corpus(
    ("files", "seam", "origin", "gap"),
    [
        ([(0, 9), (10, 19)], 20, 0, None),
        ([(0, 9), (10, 19)], 15, 0, None),
        ([(0, 9)], 20, 0, "10-19"),
        ([(0, 9)], 20, 20, "10-19"),
        ([(0, 9), (15, 19)], 20, 0, "10-14"),
        ([], 20, 20, None),
        ([], 20, 7, "7-19"),
        ([(10, 19)], 20, 7, "7-9"),
        ([(10, 19)], 20, 15, None),
        ([(0, 9)], None, None, None),
        ([(30, 39)], 20, 20, None),
        ([(30, 39)], 20, None, None),
    ],
)
def test_blocks_that_are_neither_in_the_table_nor_in_files_are_not_left_out_silently(
    files: list[tuple[int, int]], seam: int | None, origin: int | None, gap: str | None
) -> None:
    uris = [f"s3://b/x/blocks_{start}_{end}.parquet" for start, end in files]
    one = Resolved(ref("tip"), dataset(1, "tip", files=uris, table=True))
    if gap is None:
        refuse_gap(one, seam, origin)
        return
    with pytest.raises(RangeNotReady, match=f"blocks {gap} of 'tip'"):
        refuse_gap(one, seam, origin)
