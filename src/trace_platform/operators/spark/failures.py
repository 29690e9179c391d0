"""What went wrong in a Spark job, as an error that people can read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from trace_platform.domain.errors import (
    InvalidQuery,
    TaskCanceled,
    TraceError,
    Unavailable,
    noted_in,
)

# The SQL standard's classes of states: what Spark does not have, data exceptions, statements that
# mean nothing, and those that raise an error themselves.
_BLAMES_THE_QUERY = re.compile(r"SQLSTATE: (0A|22|42|P0)")
_EXECUTOR_LOST = re.compile(
    r"failed (\d+) times, most recent failure: .*ExecutorLost.* Reason: (.*)"
)
_LEAD_IN = re.compile(
    r"^(: |Caused by: )?(org\.apache\.spark\.SparkException: )?"
    r"(Job aborted due to stage failure: .*most recent failure: Lost task [^:]*: )?"
)
# Python's traceback: its frames are indented, and the first line that is not is the error.
_TRACEBACK_END = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")


@contextlib.contextmanager
def readable_failures(check: Callable[[], None]) -> Iterator[None]:
    """Around a Spark action. A TraceError that was raised on an executor is raised again here. Of
    other failures, what a new attempt may mend is Unavailable; what the SQL or the data is to blame
    for is InvalidQuery; a job that was cancelled is what `check` says."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        check()  # a job that was cancelled because the attempt has to stop says so
        raise _named(error) from error


def _named(error: Exception) -> TraceError:
    text = str(error)
    if (noted := noted_in(text)) is not None:
        return noted
    if "SparkContext was shut down" in text or "stopped SparkContext" in text:
        return Unavailable(
            "Spark's application ended while the task ran", hint="the next attempt starts another"
        )
    if re.search(r"Job \d+ cancelled", text):
        return TaskCanceled("the task's Spark jobs were cancelled")
    lost = _EXECUTOR_LOST.search(text)
    if lost is not None:
        return Unavailable(
            f"Spark lost the executor of a task {lost[1]} times: {lost[2].strip()[:300]}",
            hint="what it lacked is in its log on the cluster; memory is spark.executor.memory",
        )
    if type(error).__module__.startswith("py4j") and "Java" not in type(error).__name__:
        return Unavailable(
            "Spark's JVM ended while the task ran", hint="the next attempt starts it"
        )
    if isinstance(error, OSError | EOFError):
        return Unavailable("the connection to Spark's JVM broke while the task ran")
    said = f"the Spark job failed: {telling_line(text)}"
    return InvalidQuery(said) if _BLAMES_THE_QUERY.search(text) else Unavailable(said)


def telling_line(text: str) -> str:
    """The Python error at the end of a worker's traceback, else the first error that is named."""
    ends = _TRACEBACK_END.findall(text)
    if ends:
        return str(ends[-1]).strip()[:500]
    lines = [_LEAD_IN.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception): ", line)]
    python = [line for line in named if not line.startswith(("org.apache", "py4j", "java"))]
    return (python[-1:] or named or lines or ["no reason given"])[0][:500]
