"""`trace datasets show`: what a DAG declares of the columns beside what is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from trace_platform.app.api_client import dataset_client
from trace_platform.cli.datasets import list_datasets, show
from trace_platform.wire.dataset import DatasetDetail, DatasetEntries, DatasetEntry

ID = UUID("01a1e1a6-89ab-7000-8000-000000000000")


def shown(
    columns: dict[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    **said: Any,
) -> list[str]:
    found = DatasetDetail(
        dataset="days", name="days", dataset_uuid=ID, producer="d.sum", output_index=0,
        dataset_version=ID, partitions=1, rows=1, bytes=1, newest_at=None, age_s=None,
        state="fresh", answer="days is fresh", description=None, storage="parquet",
        write_mode=None, columns=columns, pii=[], max_age_s=None, generation_id=ID, generations=1,
        location="s3://trace-data/", table=None, cursor=None, first_block=None, last_block=None,
        gap_count=0, gaps=[], upstream=[], downstream=[], **said,
    )  # fmt: skip
    monkeypatch.setattr(dataset_client, "dataset", lambda *_: found)
    show("days", home=Path("nowhere"))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_declared_and_committed_types_stand_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {
        "day": {"type": "date", "declared": "date", "committed": "string", "from": ["a.b"]},
        "n": {"type": "int64", "declared": "int64", "committed": None, "description": "Rows."},
        "more": {"type": "double", "declared": None, "committed": "double", "nullable": True},
    }
    misfits = ["column 'day' is string, declared date", "column 'n' (int64) is missing"]
    lines = shown(columns, monkeypatch, capsys, misfits=misfits)
    assert [line for line in lines if line.startswith("misfit")] == [
        f"misfit {misfit}" for misfit in misfits
    ]
    assert lines[-4:] == [
        "column declared committed from description",
        "day date string a.b -",
        "n int64 - - Rows.",
        "more - double - -",
    ]


def test_owner_and_tags_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown({}, monkeypatch, capsys, owner="chain-team", tags=["raw", "demo"])
    assert "owner chain-team" in lines
    assert "tags raw, demo" in lines


def test_datasets_are_listed_by_tag_and_owner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [entry("blocks", "chain-team", ["raw", "demo"]), entry("days", None, ["demo"])]
    monkeypatch.setattr(
        dataset_client, "datasets", lambda *_, **__: DatasetEntries(datasets=entries)
    )
    for asked, names in (
        ({"tag": ["demo"]}, ["blocks", "days"]),
        ({"tag": ["demo", "raw"]}, ["blocks"]),
        ({"owner": "chain-team"}, ["blocks"]),
    ):
        list_datasets(home=Path("nowhere"), as_json=True, **asked)
        found = DatasetEntries.model_validate_json(capsys.readouterr().out)
        assert [each.dataset for each in found.datasets] == names, asked
    list_datasets(home=Path("nowhere"), tag=["nothing"])
    assert "no dataset has that owner and these tags" in capsys.readouterr().out
    list_datasets(home=Path("nowhere"))
    assert "chain-team" in capsys.readouterr().out


def entry(name: str, owner: str | None, tags: list[str]) -> DatasetEntry:
    return DatasetEntry(
        dataset=name, name=name, dataset_uuid=ID, producer="d.sum", output_index=0,
        dataset_version=ID, partitions=1, rows=1, bytes=1, newest_at=None, age_s=None,
        state="fresh", owner=owner, tags=tags,
    )  # fmt: skip


def test_what_nobody_declared_is_what_is_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {
        "n": {"type": "int64", "declared": None, "committed": "int64", "nullable": False},
        # Of a dispatcher of before.
        "m": {"type": "string", "nullable": True},
    }
    lines = shown(columns, monkeypatch, capsys)
    assert lines[-3:] == ["column type nullable", "n int64 no", "m string yes"]
