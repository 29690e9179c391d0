"""Something that must not be possible, and what came of trying it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """`who` tried `what`; `got` says what was reached, and is empty when nothing was."""

    who: str
    what: str
    got: str = ""

    @property
    def succeeded(self) -> bool:
        return bool(self.got)
