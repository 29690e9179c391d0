"""Code of one's own that lies beside a DAG file: how a job names it, and what belongs to it.

A job says `operator: ./my_ops.py:BigBlocks`. Deployed, it says which content of the file that is:
`./my_ops.py:BigBlocks@` and a SHA-256. Another content is another operator, so an edit rebuilds
what it makes, and what runs goes on with what it was deployed with.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from trace_platform.domain.errors import InvalidConfig

# Files of one DAG, and bytes of all of them.
MAX_FILES = 32
MAX_BYTES = 262_144

# The operator whose config names a function.
FUNCTIONS = "python_transform"

_FILE = r"[A-Za-z_][A-Za-z0-9_]{0,62}\.py"
PATTERN = rf"\./{_FILE}:[A-Za-z_][A-Za-z0-9_]{{0,127}}"
_REFERENCE = re.compile(rf"\./({_FILE}):([A-Za-z_][A-Za-z0-9_]{{0,127}})(?:@([0-9a-f]{{64}}))?")
_FILE_NAME = re.compile(_FILE)

Files = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CodeRef:
    """A class in a file beside the DAG, and once it is deployed the digest of its code."""

    file: str
    attribute: str
    digest: str | None = None

    def __str__(self) -> str:
        at = f"@{self.digest}" if self.digest else ""
        return f"./{self.file}:{self.attribute}{at}"

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py")

    @property
    def written(self) -> str:
        """As the author wrote it."""
        return str(replace(self, digest=None))


@dataclass(frozen=True, slots=True)
class Code:
    """The .py files that came with a DAG file, by name."""

    files: Files = field(default_factory=dict)
    # Files that are named and cannot be had: why.
    unreadable: Mapping[str, str] = field(default_factory=dict)
    # Whether whoever runs this instance allows code beside DAG files.
    allowed: bool = True

    def pinned(self, ref: CodeRef) -> CodeRef:
        return replace(ref, digest=digest_of(self.of(ref)))

    def of(self, ref: CodeRef) -> dict[str, str]:
        """The file, and all that it imports of what lies beside it. Raise InvalidConfig when
        something is missing or is no Python."""
        found: dict[str, str] = {}
        waiting = [ref.file]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name not in self.files:
                said = self.unreadable.get(name, "is not there, or was not sent with the DAG file")
                raise InvalidConfig(f"{name} {said}")
            found[name] = self.files[name]
            waiting += imported_files(name, found[name])
        return dict(sorted(found.items()))


def parse(operator: str) -> CodeRef | None:
    """None for an operator that is called by its name."""
    match = _REFERENCE.fullmatch(operator)
    return CodeRef(match[1], match[2], match[3]) if match else None


def code_of(operator: str | None, config: Mapping[str, object]) -> CodeRef | None:
    """The code beside the DAG that a job runs: its operator, or the function that it gives
    `python_transform`."""
    if operator == FUNCTIONS:
        function = config.get("function")
        return parse(function) if isinstance(function, str) else None
    return parse(operator) if operator else None


def short(operator: str) -> str:
    """For people: of a digest its beginning."""
    ref = parse(operator)
    return operator if ref is None or ref.digest is None else operator[:-56]


def is_file_name(name: str) -> bool:
    return _FILE_NAME.fullmatch(name) is not None


def canonical(files: Files) -> bytes:
    return json.dumps(dict(files), sort_keys=True, separators=(",", ":")).encode()


def digest_of(files: Files) -> str:
    return hashlib.sha256(canonical(files)).hexdigest()


def imported_files(name: str, text: str) -> list[str]:
    """What a file imports of what lies beside it: `from .units import wei`, `from . import units`.
    It is read and never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, name)
    except SyntaxError as error:
        raise InvalidConfig(f"{name}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidConfig(f"{name} is no Python that can be read") from None
    return [f"{module}.py" for module in _relative_imports(name, tree)]


def _relative_imports(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        if node.level > 1 or "." in (node.module or ""):
            raise InvalidConfig(
                f"{name}:{node.lineno}: only files beside it can be imported with a dot",
                hint="write from .units import wei, with units.py in the same folder",
            )
        yield from [node.module] if node.module else [alias.name for alias in node.names]


def refuse_too_much(files: Files) -> None:
    """Raise InvalidConfig for other names than those of Python files, too many, or too large."""
    for name in files:
        if not is_file_name(name):
            raise InvalidConfig(f"{name!r} is no name of a .py file beside the DAG file")
    size = sum(len(text.encode("utf-8", "replace")) for text in files.values())
    if len(files) > MAX_FILES or size > MAX_BYTES:
        raise InvalidConfig(
            f"the code beside the DAG has {len(files):,} files and {size:,} bytes; at most"
            f" {MAX_FILES} files and {MAX_BYTES:,} bytes are allowed",
            hint="make a package of it, with entry points in the group trace_platform.operators",
        )
