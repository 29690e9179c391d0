"""What SQL gives and takes has types: dicts without one are left where this says, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import trace_platform

ROOT = Path(trace_platform.__file__).parent
# A row of a query, and JSON whose keys nobody has said.
UNTYPED = re.compile(r"\b(Row\b|dict\[str, (Any|object)\])")


def test_a_dict_without_a_type_is_in_no_signature_but_these() -> None:
    """New ones are refused, and what has got a type since has to go from the list."""
    found = {f"{path}: {name}" for path, name in _untyped()}
    listed = {f"{path}: {name}" for path, names in _listed() for name in names}
    assert sorted(found - listed) == [], "give what SQL gives or takes a dataclass"
    assert sorted(listed - found) == [], "these have a type now: take them from the list"


def _untyped() -> Iterator[tuple[str, str]]:
    for folder in ("dispatcher", "state"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            for node in ast.walk(ast.parse(path.read_text())):
                if any(UNTYPED.search(said) for said in _annotations(node)):
                    yield place, node.name  # type: ignore[attr-defined]


def _annotations(node: ast.AST) -> Iterator[str]:
    """What a function takes and gives. A field may be open JSON, such as a job's config."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        said = [each.annotation for each in arguments if each is not None] + [node.returns]
    else:
        said = []
    yield from (ast.unparse(each) for each in said if each is not None)


def _listed() -> Iterator[tuple[str, list[str]]]:
    for lines in LEFT.values():
        for line in lines.strip().splitlines():
            path, _, names = line.strip().partition(": ")
            yield path, names.split()


LEFT = {
    "JSON that is open: keys of a standard, of a log line, of what operators or users write": """
        dispatcher/api/routes.py: __call__
        dispatcher/api/workers.py: jwks
        dispatcher/datasets/list_datasets.py: entry_fields
        dispatcher/datasets/show_dataset.py: _columns _committed
        dispatcher/events/expire_correlations.py: _facts
        dispatcher/events/publish_outbox.py: _messages
        dispatcher/operators/wire_tap.py: _facts
        dispatcher/sources/list_sources.py: _progress
        dispatcher/tasks/complete_task.py: _scope
        dispatcher/tasks/read_state.py: read_state
        dispatcher/tasks/read_task_log.py: _lines _line
        dispatcher/tasks/task_tokens.py: _claims _granted jwks
        dispatcher/versions/find_change.py: publish_metadata
        state/correlations.py: arrive
        state/dags.py: set_publishes add_edge
        state/datasets.py: commit_delivery
        state/events.py: route
        state/operator_state.py: read
        state/queries.py: record
        state/tasks.py: extend_leases
    """,
}
