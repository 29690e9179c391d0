"""Did you mean …? Suggestions for what was misspelt, and the odd characters in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

from trace_platform.domain.alike import alike

# More would not be read, and a hostile file could make the comparing slow.
MAX_LISTED = 12
_MAX_COMPARED = 1_000
_MAX_LENGTH = 128

# Letters of other scripts that look like Latin ones.
_LOOKS_LIKE = dict(
    zip(
        "аеорсухіјѕһԁԛԝвкмнтАВЕКМНОРСТУХІЈЅοναρυικτΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡ",
        "aeopcyxijshdqwbkmhtABEKMHOPCTYXIJSovapuiktABEZHIKMNOPTYXiag",
        strict=True,
    )
)


def near(given: str, known: Collection[str]) -> str | None:
    """The known word that is most likely meant."""
    if len(given) > _MAX_LENGTH or len(known) > _MAX_COMPARED:
        return None
    plain = {_plain(word): word for word in known}
    if _plain(given) in plain:
        return plain[_plain(given)]
    found = alike(given, known)
    return found[0] if found else None


def instead(given: str, known: Sequence[str], most: int = MAX_LISTED) -> str:
    """The end of a message: the word that was meant, or the words that there are."""
    odd = odd_character(given)
    meant = near(given, known)
    if meant is not None:
        return f"; it {odd}: did you mean '{meant}'?" if odd else f"; did you mean '{meant}'?"
    return (f"; it {odd}" if odd else "") + listed(known, most)


def listed(known: Sequence[str], most: int = MAX_LISTED) -> str:
    if not known or not most:
        return ""
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return f"; known here: {', '.join(known[:most])}{more}"


def odd_character(text: str) -> str | None:
    """'has U+0430 CYRILLIC SMALL LETTER A, which looks like 'a'' for the first such character."""
    found = next((c for c in text if not c.isascii()), None)
    if found is None:
        return None
    said = f"has U+{ord(found):04X} {unicodedata.name(found, 'without a name')}"
    twin = _twin(found)
    return f"{said}, which looks like '{twin}'" if twin else said


def _twin(character: str) -> str | None:
    if character in _LOOKS_LIKE:
        return _LOOKS_LIKE[character]
    # Wide, bold and other styles of a letter; accents make another letter, and look so.
    plain = unicodedata.normalize("NFKC", character)
    return plain if plain != character and plain.isascii() and plain.isalnum() else None


def _plain(word: str) -> str:
    """The same for words that only differ in case, separators and look-alikes."""
    latin = "".join(_twin(c) or c if not c.isascii() else c for c in word)
    return latin.lower().replace("-", "").replace("_", "").replace(" ", "")
