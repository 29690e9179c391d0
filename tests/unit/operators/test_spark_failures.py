from __future__ import annotations

import traceback

import pytest

from trace_platform.domain import errors
from trace_platform.domain.errors import (
    InvalidQuery,
    MalformedBlock,
    RpcUnreachable,
    TaskCanceled,
    TraceError,
    Unavailable,
    noted_in,
)
from trace_platform.operators.spark.failures import readable_failures

_LOST = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 \
times, most recent failure: Lost task 0.3 in stage 1.0 (TID 8) (10.0.0.7 executor 6): \
ExecutorLostFailure (executor 6 exited caused by one of the running tasks) Reason: Command exited \
with code 137
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
"""


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            _LOST,
            Unavailable,
            "Spark lost the executor of a task 4 times: Command exited with code 137",
        ),
        (
            "Job 3 cancelled because SparkContext was shut down",
            Unavailable,
            "Spark's application ended while the task ran",
        ),
        (
            "Cannot call methods on a stopped SparkContext.\nIt was stopped at:",
            Unavailable,
            "Spark's application ended while the task ran",
        ),
        (
            "[SPARK_JOB_CANCELLED] Job 2 cancelled part of cancelled job group g1",
            TaskCanceled,
            "the task's Spark jobs were cancelled",
        ),
        (
            "[UNSUPPORTED_TIME_TYPE] The data type TIME is not supported. SQLSTATE: 0A000",
            InvalidQuery,
            "the Spark job failed: [UNSUPPORTED_TIME_TYPE] The data type TIME is not supported."
            " SQLSTATE: 0A000",
        ),
        (
            "[USER_RAISED_EXCEPTION] a balance below zero SQLSTATE: P0001",
            InvalidQuery,
            "the Spark job failed: [USER_RAISED_EXCEPTION] a balance below zero SQLSTATE: P0001",
        ),
    ],
)
def test_what_a_cluster_does_to_a_job_is_named(
    text: str, kind: type[TraceError], says: str
) -> None:
    with pytest.raises(kind) as caught, readable_failures(lambda: None):
        raise RuntimeError(text)
    assert caught.value.message == says


def test_an_attempt_that_has_to_stop_says_why_itself() -> None:
    def check() -> None:
        raise TaskCanceled("canceled on request")

    with pytest.raises(TaskCanceled, match="on request"), readable_failures(check):
        raise RuntimeError("Job 2 cancelled")


@pytest.fixture
def on_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that are made here leave as the text of a traceback, as on an executor."""
    monkeypatch.setattr(errors, "_writes_notes", True)


def _as_spark_tells(error: Exception) -> str:
    """The text of a Java error around a Python worker's traceback."""
    written = "".join(traceback.format_exception(error))
    return (
        "An error occurred while calling o57.parquet.\n: org.apache.spark.SparkException:"
        " Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent"
        " failure: Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor driver):"
        f" org.apache.spark.api.python.PythonException: {written}\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.run(X.scala:7)\n"
    )


def _raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as raised:
        return raised


@pytest.mark.usefixtures("on_executor")
@pytest.mark.parametrize(
    "error",
    [
        MalformedBlock("the chain\nmoved", hint="wait\na little", block=7),
        RpcUnreachable("no answer", retry_after_s=3.5),
        TraceError("nothing more is known"),
        MalformedBlock('trace_error: {"code": "task_canceled"}'),
    ],
)
def test_an_error_of_an_executor_is_itself_on_the_driver(error: TraceError) -> None:
    there = type(error)(error.message, hint=error.hint, **error.facts)
    text = _as_spark_tells(_raised(there, OSError("the socket broke")))
    with pytest.raises(type(error)) as caught, readable_failures(lambda: None):
        raise RuntimeError(text)
    assert caught.value.__reduce__() == error.__reduce__()


@pytest.mark.usefixtures("on_executor")
def test_of_a_chain_of_errors_the_last_one_counts() -> None:
    first = MalformedBlock("the chain moved")
    text = _as_spark_tells(_raised(RpcUnreachable("no answer"), first))
    assert type(noted_in(text)) is RpcUnreachable


@pytest.mark.usefixtures("on_executor")
def test_an_error_class_that_the_driver_never_imported_keeps_its_code() -> None:
    told = "".join(traceback.format_exception(Unavailable("full", hint="wait")))
    found = noted_in(told.replace('"code": "unavailable"', '"code": "own_code"'))
    assert found is not None
    assert (found.code, found.message, found.hint, found.retryable) == (
        *("own_code", "full", "wait"),
        True,
    )


@pytest.mark.parametrize("line", ["trace_error: {}", "trace_error: {broken", "trace_error: [1]"])
def test_a_line_that_only_looks_like_a_note_is_none(line: str) -> None:
    assert noted_in(f"Traceback (most recent call last):\nValueError: x\n{line}\n") is None


def test_a_python_error_of_any_name_is_told() -> None:
    class Strange(Exception):
        pass

    with pytest.raises(Unavailable) as caught, readable_failures(lambda: None):
        raise RuntimeError(_as_spark_tells(_raised(Strange("seven is missing"))))
    assert caught.value.message.endswith("Strange: seven is missing")


def test_errors_have_no_notes_where_nobody_reads_them() -> None:
    assert not hasattr(MalformedBlock("the chain moved"), "__notes__")
