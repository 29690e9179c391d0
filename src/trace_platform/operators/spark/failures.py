"""What went wrong in a Spark job, as an error that people can read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from trace_platform.domain.errors import TaskCanceled, TraceError, Unavailable


@contextlib.contextmanager
def readable_failures(check: Callable[[], None]) -> Iterator[None]:
    """Around a Spark action: its failure becomes TaskCanceled, TaskTimedOut or Unavailable."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:
        check()  # a job that was cancelled because the attempt has to stop says so
        raise _named(error) from error


def _named(error: Exception) -> TraceError:
    text = str(error)
    if re.search(r"Job \d+ cancelled|SparkContext was shut down", text):
        return TaskCanceled("the task's Spark jobs were cancelled")
    if type(error).__module__.startswith("py4j") and "Java" not in type(error).__name__:
        return Unavailable(
            "Spark's JVM ended while the task ran", hint="the next attempt starts it"
        )
    if isinstance(error, OSError | EOFError):
        return Unavailable("the connection to Spark's JVM broke while the task ran")
    return Unavailable(f"the Spark job failed: {_telling_line(text)}")


def _telling_line(text: str) -> str:
    """The Python error at the end of a worker's traceback, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception): ", line)]
    python = [line for line in named if not line.startswith(("org.apache", "py4j", "java"))]
    return ((python[-1:] or named or lines or ["no reason given"])[0])[:500]
