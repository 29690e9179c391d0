"""An ABI in a file, or on standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from trace_platform.domain.errors import BadInput
from trace_platform.wire.abi import MAX_ABI_CHARS


def read_abi_file(file: Path) -> str:
    """Raise BadInput for what is no text."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not a text file", hint="an ABI is JSON, or text") from None
    if not text.strip():
        raise BadInput(f"{file} is empty", hint="an ABI is JSON of a compiler, or signatures")
    if len(text) > MAX_ABI_CHARS:
        raise BadInput(f"{file} has more than {MAX_ABI_CHARS:,} characters")
    return text
