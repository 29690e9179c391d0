"""When datasets are read, as a user says it: a moment, or an id that stands for one."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from trace_platform.domain.errors import BadInput

_BEGINNING_OF_ID = re.compile(r"[0-9a-fA-F-]{4,36}")
_HINT = (
    "write it as 2026-01-31T12:00:00Z, or give the id of a deploy, of a version of a DAG or of a"
    " generation, or how it begins"
)


def moment_or_id(said: str) -> datetime | str:
    """A moment with its zone, or an id or the beginning of one. Raise BadInput for all else."""
    try:
        return str(UUID(said))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        if _BEGINNING_OF_ID.fullmatch(said):
            return said.lower()
        raise BadInput(f"'{said}' is no moment", hint=_HINT) from None
    if moment.utcoffset() is None:
        raise BadInput(f"'{said}' says no time zone", hint=_HINT)
    return moment
