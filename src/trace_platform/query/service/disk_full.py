"""A disk that is full is the machine's trouble: it is told as such, and is no defect."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from trace_platform.domain.errors import DiskFull


@contextlib.contextmanager
def disk_full(what: str) -> Iterator[None]:
    """Raise DiskFull, which says for what, when no space is left."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left for {what}", hint="free some space") from None
        raise
