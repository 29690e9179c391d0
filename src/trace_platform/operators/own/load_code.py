"""Code beside a DAG, in the process that runs it: a package whose name is its digest.

Several versions of one file are several packages: they never share a class, a function or a global.
What Spark pickles by name is found under that name on every executor that has the package's zip.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import io
import json
import os
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.own_code import CodeRef

if TYPE_CHECKING:
    from trace_platform.operators.contract import Operator

_PREFIX = "trace_code_"
# The same content, the same bytes.
_MOMENT = (1980, 1, 1, 0, 0, 0)


class CodeLoader:
    """`fetch` gives the files of a digest, as canonical JSON. Thread-safe."""

    def __init__(
        self, folder: Path, fetch: Callable[[str], bytes], *, allowed: bool = True
    ) -> None:
        self._folder = folder
        self._fetch = fetch
        self._allowed = allowed
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._zips: dict[str, Path] = {}

    def load(self, ref: CodeRef) -> type[Operator]:
        """Raise InvalidConfig when it cannot be imported, or has no such class."""
        with self._ready(ref):
            return load_class(package_of(ref.digest or ""), ref)

    @contextmanager
    def _ready(self, ref: CodeRef) -> Iterator[None]:
        """Its content is here. Code that is slow to import keeps none waiting but its own."""
        if not self._allowed:
            raise InvalidConfig(
                "code beside DAG files is switched off here",
                hint="whoever runs this instance sets it: [operators] beside_dags = true",
            )
        assert ref.digest is not None, "a deployed job names the content"
        with self._lock:
            own = self._locks.setdefault(ref.digest, threading.Lock())
        with own:
            if ref.digest not in self._zips:
                self._zips[ref.digest] = self._unpack(ref.digest)
            yield

    def load_function(self, ref: CodeRef) -> Callable[..., Any]:
        """The same, of a function."""
        with self._ready(ref):
            return load_function(package_of(ref.digest or ""), ref)

    def zip_of(self, ref: CodeRef) -> Path:
        """What executors need. It has to be loaded here."""
        return self._zips[ref.digest or ""]

    def _unpack(self, digest: str) -> Path:
        content = self._fetch(digest)
        if hashlib.sha256(content).hexdigest() != digest:
            raise InvalidConfig("the code of this job is not what was deployed")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{package_of(digest)}.zip"
        partial = self._folder / f".{path.name}.{os.getpid()}"
        partial.write_bytes(zipped(digest, json.loads(content)))
        partial.replace(path)
        sys.path.append(str(path))
        # Of this path alone: `importlib.invalidate_caches` forgets those of others too, and two
        # threads that do so at once fail with KeyError.
        sys.path_importer_cache.pop(str(path), None)
        return path


def package_of(digest: str) -> str:
    return _PREFIX + digest[:32]


def zipped(digest: str, files: dict[str, str]) -> bytes:
    target = io.BytesIO()
    package = package_of(digest)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted({"__init__.py": ""}.items() | files.items()):
            archive.writestr(zipfile.ZipInfo(f"{package}/{name}", _MOMENT), text)
    return target.getvalue()


def load_function(package: str, ref: CodeRef) -> Callable[..., Any]:
    found = getattr(_module(package, ref), ref.attribute, None)
    if not callable(found) or isinstance(found, type):
        raise InvalidConfig(f"{ref.file} has no function {ref.attribute}")
    taken = list(inspect.signature(found).parameters.values())
    if len([each for each in taken if each.default is each.empty]) != 2:
        raise InvalidConfig(
            f"{ref.file}: {ref.attribute} is to take two things, inputs and ctx",
            hint=f"write def {ref.attribute}(inputs, ctx), which returns a DataFrame or several",
        )
    return cast("Callable[..., Any]", found)


def _module(package: str, ref: CodeRef) -> ModuleType:
    try:
        return importlib.import_module(f"{package}.{ref.module}")
    except Exception as error:
        raise cannot_import(ref.file, error) from error


def load_class(package: str, ref: CodeRef) -> type[Operator]:
    found = getattr(_module(package, ref), ref.attribute, None)
    if not isinstance(found, type):
        raise InvalidConfig(f"{ref.file} has no class {ref.attribute}")
    return cast("type[Operator]", found)


def cannot_import(what: str, error: BaseException) -> InvalidConfig:
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    hint = None
    if isinstance(error, ModuleNotFoundError):
        hint = (
            f"install {error.name} where Trace is installed; a file beside it is imported with a"
            " dot: from .units import wei"
        )
    return InvalidConfig(f"{what} cannot be imported: {said}", hint=hint)
