"""What went wrong with files in a Spark job, by the names that people know them by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from trace_platform.domain.errors import (
    CorruptFile,
    DiskFull,
    IncompatibleSchema,
    MissingFile,
    TraceError,
    noted_in,
)
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.spark.failures import readable_failures

_VERIFY = "`trace datasets verify` finds what is damaged"
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
_READING = re.compile(r"\[FAILED_READ_FILE\.(?P<why>\w+)\].*?reading file (?P<path>\S+)")
_GONE = re.compile(r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException")


@contextmanager
def named_files(task: TaskContext, uris: Sequence[str]) -> Iterator[None]:
    """As `readable_failures`; of failures of the disk and of these files, which they are."""
    with readable_failures(task.check):
        try:
            yield
        except TraceError:
            raise
        except Exception as error:
            task.check()
            if noted_in(str(error)) is not None:
                raise
            if (named := _of_files(str(error), uris)) is not None:
                raise named from error
            raise


def _of_files(text: str, uris: Sequence[str]) -> TraceError | None:
    if _NO_SPACE.search(text):
        return DiskFull("no space left while Spark wrote", hint="free some space")
    uri = next((uri for uri in uris if _key(uri) in unquote(text)), None)
    if uri is None:
        return None
    reading = _READING.search(text)
    if _GONE.search(text):
        return MissingFile(f"{uri} is not there any more", hint=_VERIFY)
    if reading is not None and "MISMATCH" in reading["why"]:
        return IncompatibleSchema(f"{uri} has a column of another type", hint=_VERIFY)
    if reading is not None:
        return CorruptFile(f"{uri} cannot be read", hint=_VERIFY)
    return None


def _key(uri: str) -> str:
    """The part of its address that any store's path of it ends with."""
    return uri.partition("://")[2]
