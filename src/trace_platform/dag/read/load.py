"""YAML to plain values, in one pass: safe, bounded, and with the place of everything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from trace_platform.dag.read.characters import BYTE_ORDER_MARK, hidden_characters
from trace_platform.dag.read.errors import DagError, DagErrors, Place, shown, spell
from trace_platform.dag.read.scalar import plain_value
from trace_platform.dag.read.syntax import syntax_error
from trace_platform.dag.read.text_place import TextPlace

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 100_000
MAX_KEY = 1_024
MAX_TEXT = 65_536
# Enough to show what is wrong: the rest is not read.
MAX_ERRORS = 1_000

# The same events from C, several times as fast, where PyYAML has it.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NO_DATABASE = "has a character that no database stores"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file says, where, and what is wrong so far."""

    data: Any
    root: Place
    errors: list[DagError]


def load(text: str, loader: Any = LOADER) -> Loaded:
    """Raise DagErrors for what leaves nothing to read."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        said = f"the file has {size:,} bytes, at most {MAX_BYTES:,} are allowed"
        raise DagErrors([DagError(1, 1, "", f"{said}: split the DAG")])
    if hidden := list(hidden_characters(text)):
        raise DagErrors(hidden)
    build = _Build(text)
    try:
        for event in yaml.parse(text, Loader=loader):
            build.take(event)
    except yaml.MarkedYAMLError as error:
        raise DagErrors([syntax_error(text, error)]) from None
    except yaml.YAMLError as error:
        raise DagErrors([DagError(1, 1, "", f"not valid YAML: {shown(str(error))}")]) from None
    if build.root is None:
        raise DagErrors([DagError(1, 1, "", "the file is empty: start with name: and jobs:")])
    return Loaded(build.data, build.root, build.errors)


class _Frame:
    """A mapping or a list that is being read, and its step on the way there."""

    __slots__ = ("key", "place", "step", "value")

    def __init__(self, value: Any, place: Place, step: str | int) -> None:
        self.value, self.place, self.step = value, place, step
        # The key whose value comes next, and where it stands.
        self.key: tuple[str, Place] | None = None

    @property
    def wants_key(self) -> bool:
        return self.key is None and isinstance(self.value, dict)


class _Build:
    """Values from events. Nothing is ever expanded: an alias is an error, not a value."""

    def __init__(self, text: str) -> None:
        self.data: Any = None
        self.root: Place | None = None
        self.errors: list[DagError] = []
        self._text = text
        self._frames: list[_Frame] = []
        self._documents = 0
        self._nodes = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._take_node(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._frames.pop()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(event, "a second document begins here: one file is one DAG")

    def _take_node(self, event: Any) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(event, f"more than {MAX_NODES:,} values: split the DAG")
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.wants_key:
            self._take_key(frame, event)
            return
        step, place = _next(frame, event)
        self._check(event, place, step)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._frames) == MAX_DEPTH:
                self._stop(event, f"nested deeper than {MAX_DEPTH} levels: write it flatter")
            value: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            self._attach(frame, step, value, place)
            self._frames.append(_Frame(value, place, step))
        else:
            self._attach(frame, step, self._scalar(event, place, step), place)

    def _take_key(self, frame: _Frame, event: Any) -> None:
        if not isinstance(event, yaml.ScalarEvent):
            self._stop(event, "a field's name is a word: no list, mapping or alias before ':'")
        key, place = event.value, _place(event)
        self._check(event, place, key)
        if _UNSTORABLE.search(key):
            self._say(place, None, f"the key {shown(repr(key))} {_NO_DATABASE}")
        elif len(key) > MAX_KEY:
            place.unread = True
            self._say(place, None, f"a field's name has at most {MAX_KEY:,} characters")
        elif key == "<<" and not event.style:
            place.unread = True
            self._say(place, None, "merge keys ('<<') are not allowed: write the fields out")
        elif key in frame.value:
            first = frame.place.inside[key].line
            said = f"is given twice, first in line {first}: leave one out"
            if isinstance(frame.step, int):
                # Two items in one: what follows from that is no error of its own.
                frame.place.unread = True
                said += ", or begin the next item of the list with '- '"
            self._say(place, key, said)
        frame.key = key, place

    def _attach(self, frame: _Frame | None, step: str | int, value: Any, place: Place) -> None:
        if frame is None:
            self.data, self.root = value, place
            return
        frame.place.inside[step] = place
        frame.key = None
        if isinstance(step, int):
            frame.value.append(value)
        else:
            frame.value[step] = value

    def _check(self, event: Any, place: Place, step: str | int) -> None:
        """What YAML has and a DAG file has not."""
        at = event.start_mark.index
        if at and self._text[at - 1] == "\t" and getattr(event, "value", "x"):
            mark = event.start_mark
            tab = DagError(mark.line + 1, mark.column, "", "a tab: use spaces")
            raise DagErrors([*self.errors, tab])
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            place.unread = True
            cure = "write the value out, or quote text that begins with '*' or '&'"
            self._say(place, step, f"anchors and aliases are not allowed: {cure}")
        elif getattr(event, "tag", None) is not None:
            place.unread = True
            cure = "remove it, or quote text that begins with '!'"
            tag = shown(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self._say(place, step, f"the tag {tag} is not allowed: {cure}")

    def _scalar(self, event: Any, place: Place, step: str | int) -> Any:
        text = getattr(event, "value", None)  # an alias has none
        if text is None or place.unread:
            return text
        problem = None
        value: Any = text
        if len(text) > MAX_TEXT:
            problem = f"has {len(text):,} characters, at most {MAX_TEXT:,} are allowed"
        elif _UNSTORABLE.search(text):
            problem = f"cannot be read: it {_NO_DATABASE}"
        elif event.implicit[0]:
            value, problem = plain_value(text)
            place.written = text if not isinstance(value, str) else None
        place.text = self._text_place(event, value)
        if problem is not None:
            place.unread = True
            self._say(place, step, problem)
        return value

    def _text_place(self, event: Any, value: Any) -> TextPlace | None:
        if not isinstance(value, str):
            return None
        start, end = event.start_mark.index, event.end_mark.index
        return TextPlace(self._text, start, end, value, event.style or None)

    def _say(self, place: Place, step: str | int | None, problem: str) -> None:
        path: list[str | int] = [frame.step for frame in self._frames[1:]]
        if step is not None and self._frames:
            path.append(step)
        self.errors.append(DagError(place.line, place.column, spell(tuple(path)), problem))
        if len(self.errors) == MAX_ERRORS:
            raise DagErrors(self.errors)

    def _stop(self, event: Any, problem: str) -> NoReturn:
        place = _place(event)
        raise DagErrors([*self.errors, DagError(place.line, place.column, "", problem)])


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _next(frame: _Frame | None, event: Any) -> tuple[str | int, Place]:
    if frame is None:
        return "", _place(event)
    return frame.key or (len(frame.value), _place(event))
