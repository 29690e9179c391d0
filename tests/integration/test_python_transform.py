"""`python_transform` on a real Spark session: a function of one's own, and where it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.frame_task import FrameTasks, given, output
from trace_platform.domain.errors import InvalidConfig, OperatorCrashed
from trace_platform.domain.own_code import Code, CodeRef, canonical, digest_of
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.contract import Result
from trace_platform.operators.own.load_code import CodeLoader
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.operators.transform.python_transform import Config, calling

pytestmark = pytest.mark.spark

FILE = """
from pyspark.sql import functions as f


def large(inputs, ctx):
    rows = inputs["transfers"].where(f.col("value") > ctx.params["least"])
    assert inputs["input_0"] is inputs["transfers"]
    return {
        "large": rows.withColumn("first", f.lit(ctx.start)),
        "counted": ctx.spark.createDataFrame([(rows.count(),)], "n bigint"),
    }


def raises(inputs, ctx):
    least = ctx.params["least"]
    return inputs["transfers"].where(1 / (least - 5) > 0)


def raises_on_a_row(inputs, ctx):
    return inputs["transfers"].select(f.udf(halved, "int")("value").alias("x"))


def halved(value):
    return value // (value - 7)


def nothing(inputs, ctx):
    return None


def no_transform(inputs):
    return inputs
"""


@pytest.fixture
def run(spark_runtime: SparkRuntime, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    tasks = FrameTasks(spark_runtime, LocalStore(str(tmp_path / "store")))
    files = {"my_code.py": FILE}
    loader = CodeLoader(tmp_path / "code", lambda _: canonical(files))
    before = list(sys.path)

    def call(name: str, *outputs: str) -> tuple[FrameTasks, Result]:
        ref = Code(files).pinned(CodeRef("my_code.py", name))
        assert ref.digest == digest_of(files)
        kind = calling(loader.load_function(ref))
        rows = pa.table({"block_number": list(range(10)), "value": list(range(10))})
        source = given(0, 0, 9, [tasks.file("t_0_9", rows)], names=["transfers"])
        config = Config.model_validate(
            {"mode": "map", "function": str(ref), "params": {"least": 5}}
        )
        targets = [output(n, each) for n, each in enumerate(outputs or ("out",))]
        with tasks.task([source], targets, config, py_file=loader.zip_of(ref)) as task:
            return tasks, kind().run(task)

    yield call
    sys.path[:] = before


def test_a_function_makes_the_rows_of_each_output(run: Any) -> None:
    tasks, result = run("large", "large", "counted")
    assert tasks.read(result.outputs[0]).to_pylist() == [
        {"block_number": n, "value": n, "first": 0} for n in range(6, 10)
    ]
    assert tasks.read(result.outputs[1]).to_pylist() == [{"n": 4}]


def test_an_error_names_its_file_and_line_also_one_of_an_executor(run: Any) -> None:
    with pytest.raises(OperatorCrashed, match=r"^my_code.py:16: ZeroDivisionError: division"):
        run("raises")
    with pytest.raises(OperatorCrashed, match=r"^my_code.py:24: .*ZeroDivisionError"):
        run("raises_on_a_row")


def test_what_is_no_dataframe_is_refused(run: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"my_code.py:nothing returned no DataFrame"):
        run("nothing")
    with pytest.raises(InvalidConfig, match="no_transform is to take two things"):
        run("no_transform")
