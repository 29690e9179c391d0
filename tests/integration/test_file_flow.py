"""Files of a folder become rows, and what becomes of the files becomes of their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import DataDsns
from tests.integration.test_worker import Rig
from tests.support.stack import wait_for
from trace_platform.data.database import DataDatabase
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.pressure.resume_job import resume_job
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.control import PauseRequest
from trace_platform.wire.query import DatasetRef, ResolveRequest

pytestmark = pytest.mark.spark

DAG = """
name: shop
defaults: { heartbeat_timeout_seconds: 15 }
jobs:
  - name: files
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: file_watch
    outputs: [files]
    config: { folder: "s3://inbox/prices/", suffix: .csv, every_seconds: 0.1 }
  - name: prices
    activation: reactive
    runtime: ecs_platform
    operator: file_ingest
    inputs: [{ from: { job: files } }]
    outputs: [rows, rejected]
    config: { folder: "s3://inbox/prices/", format: csv, types: { day: date, price: int64 } }
publish:
  prices: { from: { job: prices, output: rows } }
"""


class Shop:
    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self._inbox = folder / "inbox" / "prices"

    def put(self, name: str, *prices: int | str) -> None:
        self._inbox.mkdir(parents=True, exist_ok=True)
        partial = self._inbox / f"_{name}"
        partial.write_text("day,price\n" + "".join(f"2026-01-01,{each}\n" for each in prices))
        os.replace(partial, self._inbox / name)

    def take_away(self, name: str) -> None:
        (self._inbox / name).unlink()

    def read(self) -> list[int]:
        """The prices, as whoever reads the published dataset finds them."""
        request = ResolveRequest(datasets=[DatasetRef(name="prices")])

        async def resolve(plane: Any) -> Any:
            return await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)

        (found,) = self.rig.dispatcher.run(resolve).datasets
        store = self.rig.dispatcher.plane.dispatcher.store
        tables = [pq.read_table(store.filesystem(uri)[1]) for uri in found.files]
        return sorted(price for table in tables for price in table["price"].to_pylist())

    def becomes(self, before: list[int], after: list[int]) -> None:
        """At no moment anything but the one or the other."""

        def look() -> bool:
            found = self.read()
            assert found in (before, after)
            return found == after

        wait_for(f"prices {after}", look)

    def tasks(self) -> list[tuple[str, str | None]]:
        rows = self.rig.sql(
            "SELECT status, error_code FROM tasks WHERE dedupe_key <> 'run' ORDER BY id"
        )
        return [(row["status"], row["error_code"]) for row in rows]


@pytest.fixture
def shop(
    state_dsns: Any, data_dsns: DataDsns, spark_runtime: SparkRuntime, tmp_path: Path
) -> Iterator[Shop]:
    data = DataDatabase(data_dsns.writer)
    opened = Rig(state_dsns, tmp_path, data, spark=spark_runtime)
    yield Shop(opened, tmp_path)
    opened.close()


def test_rows_follow_the_files_of_the_folder(shop: Shop) -> None:
    shop.put("a.csv", 1, 2)
    shop.put("b.csv", 10)
    shop.rig.dispatcher.run(lambda plane: plane.deploy(DAG))
    wait_for("both files", lambda: shop.read() == [1, 2, 10])
    shop.put("a.csv", 3, 4, 5)
    shop.becomes([1, 2, 10], [3, 4, 5, 10])
    # What is told while nobody watches is told later; and nothing twice.
    run = shop.rig.dispatcher.run
    run(lambda p: pause_job(*_job(p), PauseRequest()))
    state = "SELECT status FROM tasks WHERE dedupe_key = 'run'"
    wait_for("an end", lambda: shop.rig.sql(state) != [{"status": "Running"}])
    shop.take_away("b.csv")
    shop.put("c.csv", 7)
    run(lambda p: resume_job(*_job(p)))
    wait_for("the rows of what is there", lambda: shop.read() == [3, 4, 5, 7])
    (inbox := shop._inbox / "d.csv").write_text("day,amount\n2026-01-01,1\n")
    wait_for("a refusal", lambda: ("Failed", "incompatible_schema") in shop.tasks())
    assert shop.read() == [3, 4, 5, 7]
    inbox.unlink()
    shop.put("d.csv", 8)
    wait_for("the mended file", lambda: shop.read() == [3, 4, 5, 7, 8])
    done = ("Completed", None)
    assert shop.tasks() == [*[done] * 5, ("Failed", "incompatible_schema"), done]


def _job(plane: Any) -> tuple[Any, Any, str, str]:
    return plane.dispatcher.state, plane.dispatcher.org_id, "shop", "files"
