"""A file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Written beside, and renamed when the block ends well: a reader sees the old or the new."""
    # Where a link points, and not the link, is what its owner wants written.
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:  # a pipe or a device has no whole
            yield stream
        return
    # Of its own: others may write the same file now.
    partial = target.with_name(f".{target.name}.{uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
