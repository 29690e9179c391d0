from __future__ import annotations

import pytest

from trace_platform.domain.errors import TaskCanceled, TraceError, Unavailable
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
