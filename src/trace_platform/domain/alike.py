"""Did you mean …? What is said of a name that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

# From 0 to 1: `Berlin` may mean `Europe/Berlin`, `nope` is no `invoke`.
_NEAR = 0.61


def alike(given: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that may be meant, the likeliest first."""
    return difflib.get_close_matches(given, list(known), n=most, cutoff=_NEAR)


def did_you_mean(names: Sequence[str]) -> str:
    """A question, or nothing when there are no names."""
    return f"did you mean {' or '.join(names)}?" if names else ""


def meant(given: str, known: Iterable[str]) -> str:
    """'did you mean blocks?', or nothing when no known name is like it."""
    return did_you_mean(alike(given, known))


def listed(known: Sequence[str], most: int) -> str:
    """'blocks, logs, and 3 more'; 'none yet' when there are none."""
    more = [f"and {len(known) - most} more"] if len(known) > most else []
    return ", ".join([*known[:most], *more]) or "none yet"


def instead(given: str, known: Sequence[str], most: int, said: str = "there are") -> str:
    """'did you mean blocks? there are: blocks, logs, and 3 more'."""
    return f"{meant(given, known)} {said}: {listed(known, most)}".lstrip()
