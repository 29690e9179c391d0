"""The lines of one attempt, kept beside it: what its operator said, and why it crashed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from trace_platform.domain.errors import TraceError
from trace_platform.domain.masking import masked
from trace_platform.drivers.object_store import ObjectStore

# What is said beyond this is in the process's log alone.
MAX_BYTES = 1 << 20


class AttemptLog:
    """Lines go to the process's log and are kept; `save` may be called again and again."""

    def __init__(self, log: Callable[[], Any], store: ObjectStore, uri: str) -> None:
        self._log = log  # made when there is something to say
        self._store = store
        self._uri = uri
        self._lock = threading.Lock()
        # Held while the store is written: nobody who speaks waits for it.
        self._saving = threading.Lock()
        self._lines: list[str] = []
        self._bytes = 0
        self._saved = 0
        self._has_end = False

    def info(self, event: str, **facts: Any) -> None:
        self._say("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._say("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        self._say("error", event, facts)

    def end(self, event: str, facts: Mapping[str, Any]) -> None:
        """Why the attempt ended, once. Kept alone: the process's log says it by itself."""
        if not self._has_end:
            self._has_end = True
            self._note("error", event, facts)

    def save(self) -> bool:
        """Whether the attempt has a log in the store. A store that refuses it costs the lines, not
        the attempt."""
        with self._lock:
            lines = list(self._lines)
        with self._saving:
            if len(lines) > self._saved:
                try:
                    self._store.put(self._uri, "".join(lines).encode())
                    self._saved = len(lines)
                except (TraceError, OSError) as error:
                    self._log().warning("attempt_log_lost", reason=str(error))
            return self._saved > 0

    def _say(self, level: str, event: str, facts: dict[str, Any]) -> None:
        getattr(self._log(), level)(event, **facts)
        self._note(level, event, facts)

    def _note(self, level: str, event: str, facts: Mapping[str, Any]) -> None:
        when = datetime.now(UTC).isoformat()
        own = {"timestamp": when, "level": level, "event": event}
        line = own | {key: value for key, value in masked(facts).items() if key not in own}
        self._keep(json.dumps(line, default=str) + "\n")

    def _keep(self, text: str) -> None:
        with self._lock:
            if self._bytes <= MAX_BYTES:
                self._lines.append(text if self._bytes + len(text) <= MAX_BYTES else _CUT)
                self._bytes += len(text)


_CUT = json.dumps({"level": "warning", "event": "log_cut", "max_bytes": MAX_BYTES}) + "\n"
