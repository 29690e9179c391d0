"""What the documents name exists, and what exists is named in them."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args
from unittest.mock import MagicMock

import pytest
import typer
from pydantic import BaseModel
from starlette.routing import Mount, Route
from typer.core import TyperGroup

from bench.__main__ import ENTRIES
from bench.harness import MEASUREMENTS
from tests.support.corpus import corpus
from tests.support.documents import DOCUMENTS, ROOT, Document, Row, Said
from trace_platform import cli
from trace_platform.app.instance.databases import DATA, STATE
from trace_platform.app.instance.settings import WITH_PORT, Settings
from trace_platform.dag.event_operators import registry as event_operators
from trace_platform.dispatcher.api.create_app import create_app as dispatcher_app
from trace_platform.dispatcher.health.metrics import Metrics as DispatcherMetrics
from trace_platform.domain import errors
from trace_platform.domain.runtimes import starting_point
from trace_platform.drivers.problem import status_of
from trace_platform.gateway.routes import description as gateway_description
from trace_platform.operators import registry as operators
from trace_platform.query.service.api import create_app as query_app
from trace_platform.query.service.metrics import Metrics as QueryMetrics
from trace_platform.rpc.api import create_app as rpc_app
from trace_platform.rpc.metrics import Metrics as RpcMetrics
from trace_platform.wire.control import HealthRule, Reason

each_document = corpus("document", DOCUMENTS, ids=lambda each: each.name)

# Names that begin like a metric: packages, a method and a column of traces, a source of Spark's.
_NO_METRICS = {
    *("trace_platform", "trace_devchain", "trace_block", "trace_address", "trace_postgres"),
    *("trace_session", "trace_session_PORT"),  # cookies
}

# Of uv, of Java, of Spark's own workers.
_OPTIONS_OF_OTHERS = {"--group", "--add-modules", "--cores", "--memory", "--work-dir"}


def _assert_known(document: Document, unknown: list[Said]) -> None:
    assert not unknown, "\n".join(f"{document.name}:{each.line}: {each.text}" for each in unknown)


def _everywhere(find: Callable[[Document], list[Said]]) -> set[str]:
    return {each.text for document in DOCUMENTS for each in find(document)}


def _found(document: Document, pattern: str) -> list[Said]:
    """In its code, fenced or not: what the pattern's first group holds."""
    pieces: list[Said] = [*document.codes, *document.blocks]
    return [
        Said(found[1], each.line + each.text.count("\n", 0, found.start()))
        for each in pieces
        for found in re.finditer(pattern, each.text)
    ]


def _in_column(document: Document, title: str) -> Iterator[tuple[Said, Row]]:
    for row in document.rows:
        for name in re.findall(r"`([^`]+)`", row.cells.get(title, "")):
            yield Said(name, row.line), row


# Links, files and tables.


@cache
def _document(path: Path) -> Document:
    return Document(path)


@each_document
def test_links_lead_somewhere(document: Document) -> None:
    dead = []
    for link in document.links:
        path, _, anchor = link.text.partition("#")
        target = (document.path.parent / path).resolve() if path else document.path
        if not target.exists() or (anchor and anchor not in _document(target).anchors):
            dead.append(link)
    _assert_known(document, dead)


@cache
def _files() -> list[Path]:
    folders = ("src", "tests", "bench", "docs")
    return [*ROOT.glob("*.*"), *(path for each in folders for path in (ROOT / each).rglob("*.*"))]


def _is_there(said: str) -> bool:
    """`events.sql: record_events` is something in a file; a file may be named by the end of its
    path."""
    path, _, part = said.partition(": ")
    # What measuring writes, and what the console's build does.
    if path.startswith(("bench/out/", "src/trace_platform/console_dist/")):
        return True
    files = (file for file in _files() if file.match(path))
    return any(part in file.read_text() for file in files) or (ROOT / path).is_dir()


@each_document
def test_files_are_there(document: Document) -> None:
    file = re.compile(r"[\w./*-]+\.(py|sql|md)(: \w+)?|(src|tests|bench|docs)/[\w./-]+")
    named = [each for each in document.codes if file.fullmatch(each.text)]
    _assert_known(document, [each for each in named if not _is_there(each.text)])


@each_document
def test_rows_have_a_head(document: Document) -> None:
    """Without one they are shown as text."""
    _assert_known(document, [Said("no table", row.line) for row in document.rows if not row.cells])


# Commands.


def _commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name in command.list_commands(None):
            yield from _commands(command.get_command(None, name), *path, name)


COMMANDS = dict(_commands(typer.main.get_command(cli.app)))
OPTIONS = {
    path: {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for path, command in COMMANDS.items()
}
ENDS = {" ".join(path) for path, each in COMMANDS.items() if not isinstance(each, TyperGroup)}


def _command_lines(document: Document) -> list[Said]:
    """`trace ...` up to the end of the command."""
    return _found(document, r"(?<![\w/.-])trace ([a-z][^\n;`#]*)")


def _read(line: str) -> tuple[list[tuple[str, ...]], list[str]]:
    """The commands that a line names, `|` between alternatives, and what in it does not exist."""
    words = [word.strip("[]()") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", line)]
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path = (*path, words.pop(0))
    if words and re.fullmatch(r"[a-z][a-z-]*", words[0]) and isinstance(COMMANDS[path], TyperGroup):
        return [], [words[0]]
    found = [path]
    for before, word in pairwise(words):
        if before == "|" and len(path) > 1 and re.fullmatch(r"[a-z][a-z-]*", word):
            found.append((*path[:-1], word))
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return found, [
        *(word for word in options if word not in OPTIONS[path]),
        *(each[-1] for each in found if each not in COMMANDS),
    ]


@each_document
def test_commands_and_their_options_exist(document: Document) -> None:
    wrong = [
        Said(f"trace {line.text}: {word}", line.line)
        for line in _command_lines(document)
        for word in _read(line.text)[1]
    ]
    _assert_known(document, wrong)


@each_document
def test_options_by_themselves_are_of_some_command(document: Document) -> None:
    known = _OPTIONS_OF_OTHERS.union(*OPTIONS.values())
    named = _found(document, r"(?:^|\n) *(--[a-z-]+)")
    _assert_known(document, [each for each in named if each.text not in known])


def test_every_command_is_documented() -> None:
    found = (_read(line)[0] for line in _everywhere(_command_lines))
    assert {" ".join(path) for paths in found for path in paths} >= ENDS


@pytest.mark.parametrize("option", ["--json", "--home"])
def test_what_lacks_an_option_that_others_have_is_named(option: str) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    said = re.search(rf"All but ((?:(?!\n\n|All but).)*?) take `{option}\b", page, re.DOTALL)
    assert said is not None
    lacking = {" ".join(path) for path in COMMANDS if option not in OPTIONS[path]}
    assert set(re.findall("`([^`]+)`", said[1])) == lacking & ENDS


@each_document
def test_targets_of_make_exist(document: Document) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = _found(document, r"(?:^|\n(?:\$ )?| {4})make ([a-z]+)")
    _assert_known(document, [each for each in named if each.text not in targets])


# HTTP.


def _routes() -> Iterator[tuple[str, str]]:
    apps = (
        dispatcher_app(MagicMock()),
        query_app(MagicMock(), MagicMock(), MagicMock(), MagicMock()),
        rpc_app({}, RpcMetrics(), tuple, "token", nullcontext),
    )
    for app in apps:
        for route in app.routes:
            if isinstance(route, Route):
                yield from ((method, route.path) for method in route.methods or ())
            elif isinstance(route, Mount):
                yield from ((method, f"{route.path}/{{name}}") for method in ("GET", "POST"))
    for path, methods in json.loads(gateway_description())["paths"].items():
        yield from ((method.upper(), path) for method in methods)


ROUTES = set(_routes())
_STEP = r"/(?:\{[^}]+\}|[\w.…*-]+)"


def _endpoints(document: Document) -> list[Said]:
    """With the method where one is given."""
    method = r"(?:(?:GET|POST|PUT|PATCH|DELETE) )?"
    root = r"/(?:v1|internal|pools|metrics|healthz)\b"
    return _found(document, rf"(?<![a-z/}}])({method}{root}(?:{_STEP})*)")


def _is_served(endpoint: str) -> bool:
    method, _, path = endpoint.partition("/")
    steps = path.split("/")
    return any(
        method.strip() in ("", verb) and _fits(steps, route.split("/")[1:])
        for verb, route in ROUTES
    )


def _fits(steps: list[str], route: list[str]) -> bool:
    if steps[-1] == "*":
        return route[: len(steps) - 1] == steps[:-1]
    return len(steps) == len(route) and all(map(_fits_step, steps, route))


def _fits_step(said: str, step: str) -> bool:
    # For a parameter stands its name, a NAME, or an example.
    if step.startswith("{"):
        return said[0] == "{" or said.isupper() or "…" in said or said == "mainnet"
    return said == step


@each_document
def test_endpoints_exist(document: Document) -> None:
    _assert_known(document, [each for each in _endpoints(document) if not _is_served(each.text)])


# Settings.


def _keys(annotation: Any) -> set[str]:
    """The fields of a section, and of sections in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        return {*fields, *(key for each in fields.values() for key in _keys(each.annotation))}
    return {key for each in get_args(annotation) for key in _keys(each)}


SETTINGS = {
    name: _keys(field.annotation)
    for name, field in Settings.model_fields.items()
    if name != "pool_names"  # from one process to another
} | {"ports": set(WITH_PORT)}


def _settings(document: Document) -> list[Said]:
    """`[section] key`, in tables of settings and elsewhere; of tables also a key by itself."""
    found = _found(document, r"^(\[[a-z_]+\] [a-z_]+)$")
    section = line = None
    for each, _ in _in_column(document, "setting"):
        section = None if each.line != line else section
        line = each.line
        if each.text.startswith("["):
            section = each.text
        else:
            found.append(Said(f"{section} {each.text}" if section else each.text, line))
    return found


def _is_setting(said: str) -> bool:
    section, _, key = said.rpartition(" ")
    if section:
        return key in SETTINGS.get(re.split(r"[].]", section[1:])[0], ())
    return key in SETTINGS or any(key in keys for keys in SETTINGS.values())


@each_document
def test_settings_exist(document: Document) -> None:
    _assert_known(document, [each for each in _settings(document) if not _is_setting(each.text)])


@each_document
def test_examples_of_settings_are_valid(document: Document) -> None:
    wrong = []
    for block in document.blocks:
        if block.language == "toml":
            try:
                Settings.model_validate(tomllib.loads(block.text))
            except ValueError as error:
                wrong.append(Said(str(error), block.line))
    _assert_known(document, wrong)


def test_every_setting_is_documented() -> None:
    said = _everywhere(_settings)
    known = {(name, key) for name, keys in SETTINGS.items() for key in keys or {name}}
    missing = {(name, key) for name, key in known if not said & {f"[{name}] {key}", key}}
    # Written as a list of tables, not as a key.
    assert missing == {("rpc_pools", "providers")}


# Codes, figures, measurements, operators.

ERRORS = {
    code: kind for code, kind in errors.subclasses().items() if kind.__module__ == errors.__name__
}
REASONS = {*get_args(Reason.model_fields["code"].annotation)}
RULES = {*get_args(HealthRule.model_fields["code"].annotation)}


def _codes(document: Document) -> list[Said]:
    return [code for code, _ in _in_column(document, "code")]


@each_document
def test_codes_exist(document: Document) -> None:
    known = ERRORS.keys() | REASONS
    _assert_known(document, [each for each in _codes(document) if each.text not in known])


@each_document
def test_errors_have_the_documented_status(document: Document) -> None:
    wrong = []
    for code, row in _in_column(document, "code"):
        kind = ERRORS.get(code.text, errors.TraceError)
        again = row.cells.get("again")
        if "status" in row.cells and row.cells["status"] not in _statuses(kind):
            wrong.append(code)
        if again is not None and again != ("yes" if kind.retryable else ""):
            wrong.append(code)
    _assert_known(document, wrong)


def _statuses(kind: type[errors.TraceError]) -> set[str]:
    # What nobody sends has none.
    status = status_of(kind(""))
    return {str(status), ""} if status == 500 else {str(status)}


def test_every_code_is_documented() -> None:
    pages = {each.name: {code.text for code in _codes(each)} for each in DOCUMENTS}
    assert pages["docs/errors.md"] == ERRORS.keys()
    assert pages["docs/monitoring.md"] | pages["docs/datasets.md"] == REASONS


def test_every_rule_of_health_is_documented() -> None:
    (page,) = (each for each in DOCUMENTS if each.name == "docs/monitoring.md")
    assert {rule.text for rule, _ in _in_column(page, "rule")} == RULES


def _registered() -> set[str]:
    idle = SimpleNamespace(running=0, waiting=0)
    texts = (
        DispatcherMetrics().exposition(),
        QueryMetrics(idle).exposition(),  # type: ignore[arg-type]
        RpcMetrics().exposition(),
    )
    return {
        name for text in texts for name in re.findall(r"^# TYPE (\w+)", text.decode(), re.MULTILINE)
    }


METRICS = {name for name in _registered() if not name.endswith("_created")}


def _figures(document: Document) -> list[Said]:
    return _found(document, r"(?<![\w/])(trace_\w+)(?!\w|\.py)")


@each_document
def test_figures_exist(document: Document) -> None:
    others = {*STATE.roles, *DATA.roles, STATE.name, DATA.name, *_NO_METRICS}
    found = _figures(document)
    _assert_known(document, [each for each in found if each.text not in METRICS | others])


def test_every_figure_is_documented() -> None:
    assert _everywhere(_figures) >= METRICS


@pytest.fixture(scope="module")
def measurements() -> set[str]:
    for entry in ENTRIES:
        importlib.import_module(f"bench.{entry}")
    return set(MEASUREMENTS)


@each_document
def test_measurements_exist(document: Document, measurements: set[str]) -> None:
    named = _found(document, r"ONLY=(\w+)")
    if document.name == "docs/benchmarks.md":
        named += [each for each, _ in _in_column(document, "name") if each.text[0] != "."]
    unknown = [each for each in named if each.text.partition(".")[0] not in measurements]
    _assert_known(document, unknown)


def test_every_measurement_is_documented(measurements: set[str]) -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert not [name for name in measurements if f"`{name}" not in page]


def test_every_operator_is_documented() -> None:
    page = (ROOT / "docs" / "operators.md").read_text()
    known = [*operators.OPERATORS, *event_operators.OPERATORS]
    assert not [name for name in known if f"`{name}`" not in page]


def test_the_error_tree_is_drawn_as_it_is() -> None:
    def drawn(kind: type[errors.TraceError]) -> Iterator[str]:
        yield kind.__name__
        below = [each for each in kind.__subclasses__() if each in ERRORS.values()]
        for child in below:
            branch, trunk = ("└── ", "    ") if child is below[-1] else ("├── ", "│   ")
            first, *rest = drawn(child)
            yield from (branch + first, *(trunk + line for line in rest))

    _, *said = re.findall(r"^[│├└─ ]*[A-Z]\w+", errors.__doc__ or "", re.MULTILINE)
    assert said == [*drawn(errors.TraceError)]


def test_the_lease_of_a_function_is_documented_as_it_is() -> None:
    lease_s = f"{starting_point('lambda').heartbeat_timeout_seconds:g}"
    docs = ROOT / "docs"
    row = rf"\| `heartbeat_timeout_seconds` \| 60 \(lambda: {lease_s}\) \|"
    assert re.search(row, (docs / "runtimes.md").read_text())
    assert f'"heartbeat_timeout_seconds": {lease_s},' in (docs / "runtimes-direct.md").read_text()
