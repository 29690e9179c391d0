"""A subject's end of the pipe: it says that it is ready, then answers each request, one JSON
object a line. It runs in the venvs of peers too, so it needs the standard library only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

Work: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def serve(prepared: AbstractContextManager[Work]) -> None:
    """Prepare, say so, work on request until the harness hangs up."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the subject prints must not be taken for an answer

    def say(answer: dict[str, Any]) -> None:
        replies.write(json.dumps(answer) + "\n")

    try:
        with prepared as work:
            say({})
            for line in sys.stdin:
                say(work(json.loads(line)))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        raise
