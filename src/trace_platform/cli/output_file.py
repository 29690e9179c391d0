"""A file that a command was told to write."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from trace_platform.client.whole_file import whole_file
from trace_platform.domain.errors import BadInput, DiskFull, TraceError

_STANDARD_OUTPUT = Path("/dev/stdout")


def check_writable(file: Path) -> None:
    """Raise BadInput. For before the work: a query may take a minute."""
    try:
        if file.is_dir():
            raise BadInput(f"{file} is a directory", hint="give the name of a file")
        if not file.parent.is_dir():
            raise BadInput(f"there is no folder {file.parent}", hint="make it first")
        # Whether its folder lets it be replaced is seen when that begins, before the query too.
        if file.exists() and not os.access(file, os.W_OK):
            raise BadInput(f"{file} cannot be written", hint="choose another, or mend its rights")
    except OSError as error:
        raise _unwritable(file, error) from None


@contextmanager
def output_file(file: Path) -> Iterator[BinaryIO]:
    """It appears whole or not at all, unless it is a pipe or a device."""
    if file == _STANDARD_OUTPUT:
        # As it was given to this process, which may share it with others.
        yield sys.stdout.buffer
        return
    try:
        with whole_file(file) as target:
            yield target
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> TraceError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"no space left for {file}", hint="free some space, or choose another place"
        )
    said = f"{file} cannot be written: {error.strerror or error}"
    return BadInput(said, hint="choose another place, or mend its rights")
