"""What pydantic found, in words that tell the cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from trace_platform.dag.model.fields import NEEDED, OPERATOR_PATTERN, UNKNOWN, UNSHOWN, Path
from trace_platform.dag.read.errors import MAX_LISTED, MAX_SHOWN, shown
from trace_platform.domain.masking import MASK, mask_text, masked
from trace_platform.wire.suggest import instead, near, odd_character

_NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
_PATTERNS = {
    _NAME_PATTERN: "use lower-case letters, digits and '_', starting with a letter",
    OPERATOR_PATTERN: "an operator is a name, such as range_splitter, or a class in a Python file"
    " beside this one: ./my_ops.py:BigBlocks",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a column is letters, digits and '_', not a digit first",
    r"^sha256:[0-9a-f]{64}$": "write sha256: and the 64 hex digits of the bundle",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$": "write module.function",
}
_SECRET = re.compile(
    r"(?i)(^|[_-])(secrets|api_?key|access_?key|secret_?key|credentials?|passphrase|mnemonic)$"
)
# What other tools call a field.
_OTHER_WORDS = {
    **dict.fromkeys(("depends_on", "depends", "needs", "after", "upstream", "upstreams"), "inputs"),
    **dict.fromkeys(("retries", "attempts", "max_retries", "retry"), "max_attempts"),
    **dict.fromkeys(("params", "parameters", "args", "arguments", "with", "options"), "config"),
    **dict.fromkeys(("tasks", "steps", "nodes", "models"), "jobs"),
    **dict.fromkeys(("id", "job_name", "dag", "dag_id", "title"), "name"),
    **dict.fromkeys(("datasets", "published", "exports"), "publish"),
    **dict.fromkeys(("concurrency", "parallelism", "max_parallel"), "scaling"),
    **dict.fromkeys(("doc", "docs", "comment", "summary"), "description"),
    **dict.fromkeys(("queue", "executor", "runs_on", "worker"), "runtime"),
    **dict.fromkeys(("trigger", "triggers"), "activation"),
    **dict.fromkeys(("task", "job_type", "type", "uses"), "operator"),
    **dict.fromkeys(("filter", "condition"), "where"),
    **dict.fromkeys(("cron", "expression"), "schedule"),
    **dict.fromkeys(("tz", "time_zone"), "timezone"),
    **dict.fromkeys(("fields",), "schema"),
}
# Where a field is that stands elsewhere.
_ELSEWHERE = {
    "schedule": "source: { kind: cron, schedule: ... }",
    "cron": "source: { kind: cron, schedule: ... }",
    "max_concurrency": "scaling: { max_concurrency: ... }",
    "max_queue_depth": "backpressure: { max_queue_depth: ... }",
    "max_queue_age": "backpressure: { max_queue_age: ... }",
    "kind": "source: { kind: ... }",
    "job": "from: { job: ... }",
    "output": "from: { output: ... }",
    "dataset": "from: { dataset: ... }",
}
_EXAMPLES = {
    "": "name: my_dag, then jobs: with a list",
    "backpressure": "{ max_queue_depth: 1000 }",
    "bootstrap": "{ reset_outputs: true }",
    "config": "{ chunk_blocks: 250 }",
    "defaults": "{ max_attempts: 3 }",
    "from": "{ job: NAME, output: NAME }",
    "inputs": "[{ from: { job: NAME } }]",
    "outputs": "[blocks, logs]",
    "pii": "[address]",
    "publish": "{ NAME: { from: { job: NAME, output: NAME } } }",
    "scaling": "{ max_concurrency: 4 }",
    "schema": "{ number: int64, hash: binary(32) }",
    "secrets": "[name_of_a_secret]",
    "source": "{ kind: manual }",
    "udf": '{ bundle: "sha256:...", handler: module.function }',
    "unique_key": "[block_hash]",
}
_MISSING = {
    "activation": "activation: source, or activation: reactive",
    "from": "from: { job: NAME, output: NAME }",
    "job": "job: NAME",
    "jobs": "jobs: and a list of jobs below it",
    "kind": "kind: manual, always_on, cron or webhook",
    "name": "name: and a name of lower-case letters, digits and '_'",
    "schedule": 'schedule: "0 3 * * *"',
    "secret": "secret: and the name of a secret",
    "type": "type: string, or another type",
    "bundle": 'bundle: "sha256:..."',
    "handler": "handler: module.function",
    "reset_outputs": "reset_outputs: true",
}


def explain(
    error: Any,
    known: Iterable[str],
    *,
    path: Path = (),
    written: str | None = None,
) -> str:
    """`known` are the fields at that place, `path` leads there, `written` is how the author wrote
    a value that YAML takes for something other than text."""
    kind: str = error["type"]
    path = path or error["loc"]
    if kind == "extra_forbidden":
        return "unknown field" + _field_instead(str(path[-1]), sorted(known))
    if kind == "missing":
        field = str(path[-1])
        return f"the field '{field}' is missing: add {_MISSING.get(field, f'{field}: ...')}"
    if kind == "where" and is_secret(path):
        return "cannot be right: see docs/dag.md for what a filter may say"
    said = _SAID.get(kind, _as_is)(error, path, written)
    if kind == UNKNOWN:
        facts = error["ctx"]
        listed = 0 if facts["otherwise"] else 12
        said += instead(facts["given"], facts["known"], listed) or facts["otherwise"]
    quiet = kind in _QUIET or (kind == "string_type" and written)
    return said if quiet else said + _found(error, path, written)


def is_secret(path: Path) -> bool:
    """Whether a value there may be one that nobody shall read in a message."""
    return any(_names_secret(str(step)) for step in path)


def _names_secret(name: str) -> bool:
    # More than is masked in logs: a message is shown to whoever deploys, and often kept by CI.
    return bool(_SECRET.search(name)) or masked({name: 1})[name] == MASK


def show_value(value: Any, path: Path = (), written: str | None = None) -> str | None:
    """A single value, short; None for what is none, or must not be seen."""
    if is_secret(path) or isinstance(value, dict | list):
        return None
    if value is None:
        return "nothing"
    if isinstance(value, str):
        text = mask_text(value)
        return shown(repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."))
    return shown(written or (str(value).lower() if isinstance(value, bool) else str(value)))


def _found(error: Any, path: Path, written: str | None) -> str:
    if error["type"] == UNKNOWN and error["input"] is None:
        return ""
    value = show_value(error.get("input"), path, written)
    return f" (found {value})" if value is not None else ""


def _field_instead(field: str, known: list[str]) -> str:
    if _OTHER_WORDS.get(field) in known:
        return f"; did you mean '{_OTHER_WORDS[field]}'?"
    if field in _ELSEWHERE and _home(field) in known:
        return f"; write {_ELSEWHERE[field]}"
    return instead(field, known, most=30)


def _home(field: str) -> str:
    return _ELSEWHERE.get(field, "").partition(":")[0]


def without_echoes(found: list[Any]) -> list[Any]:
    """Without the fields that are missing because their names are misspelt: one error is enough."""
    lacking: dict[Path, set[str]] = {}
    for error in found:
        if (field := _missing_field(error)) is not None:
            lacking.setdefault(_owner(error), set()).add(field)
    meant: set[tuple[Path, str | None]] = set()
    for error in found[:MAX_LISTED]:
        owner, field = error["loc"][:-1], str(error["loc"][-1:][0]) if error["loc"] else ""
        wanted = lacking.get(owner)
        if error["type"] == "extra_forbidden" and wanted:
            words = {_OTHER_WORDS.get(field), _home(field), near(field, sorted(wanted))}
            meant |= {(owner, word) for word in words & wanted}
    return [each for each in found if (_owner(each), _missing_field(each)) not in meant]


def _missing_field(error: Any) -> str | None:
    if error["type"] == "missing":
        return str(error["loc"][-1])
    return str(error["ctx"]["field"]) if error["type"] == NEEDED else None


def _owner(error: Any) -> Path:
    loc: Path = error["loc"]
    return loc[:-1] if error["type"] == "missing" else loc


def _as_is(error: Any, path: Path, written: str | None) -> str:
    said: str = error["msg"].removeprefix("Value error, ")
    return re.sub(r"^Input should be", "should be", said)


def _pattern(error: Any, path: Path, written: str | None) -> str:
    pattern = error["ctx"]["pattern"]
    if pattern == OPERATOR_PATTERN and not re.search(r"[./:]", str(error["input"])):
        # Meant as a name.
        pattern = _NAME_PATTERN
    said = _PATTERNS.get(pattern, f"should look like {pattern}")
    odd = odd_character(str(error["input"]))
    if odd and not is_secret(path):
        return f"{said}; it {odd}"
    slug = re.sub(r"[^a-z0-9]+", "_", str(error["input"]).lower()).strip("_")
    named = pattern == _NAME_PATTERN and re.fullmatch(r"[a-z]\w{0,40}", slug)
    return f"{said}, such as '{slug}'" if named and not is_secret(path) else said


def _text(error: Any, path: Path, written: str | None) -> str:
    if isinstance(error["input"], bool | int | float) and not is_secret(path):
        as_read = show_value(error["input"])
        kind = "a number" if not isinstance(error["input"], bool) else as_read
        text = shown(written or str(error["input"]))
        return f'should be text, and YAML reads {text} as {kind}: quote it, "{text}"'
    return "should be text"


def _choice(error: Any, path: Path, written: str | None) -> str:
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    given = written or error["input"]
    said = f"use {' or '.join([', '.join(words[:-1]), words[-1]] if words[1:] else words)}"
    if not isinstance(given, str) or is_secret(path):
        return said
    near = instead(given, words, most=0)
    return f"{said}{near}"


def _list(error: Any, path: Path, written: str | None) -> str:
    field = _field(path)
    value = error["input"]
    if isinstance(value, dict):
        return "should be a list: put '- ' before each item"
    if isinstance(value, str) and field in ("outputs", "pii", "unique_key", "from"):
        return f"should be a list: [{shown(value)}]"
    return f"should be a list, such as {field}: {_EXAMPLES.get(field, '[...]')}"


def _mapping(error: Any, path: Path, written: str | None) -> str:
    if path and path[-1] == "jobs":
        return "should be a list of jobs"
    if len(path) == 2 and path[0] == "jobs":
        return "a job is a mapping, such as - name: NAME, with its fields below"
    if len(path) == 2 and path[0] == "publish":
        return f"should be a mapping, such as {shown(str(path[1]))}: {{ from: {{ job: NAME }} }}"
    if len(path) >= 2 and path[-2] == "inputs":
        return "an input is a mapping: { from: { job: NAME } }"
    if isinstance(error["input"], list) and path:
        return "should be a mapping, and is a list: remove the '-' or the brackets"
    field = _field(path)
    prefix = f"{field}: " if field else ""
    return f"should be a mapping, such as {prefix}{_EXAMPLES.get(field, '{ ... }')}"


def _field(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _limit(words: str, key: str) -> Callable[[Any, Path, str | None], str]:
    return lambda error, path, written: f"must be {words} {_figure(error['ctx'][key])}"


def _figure(value: Any) -> str:
    return f"{value:,.15g}" if isinstance(value, float) else f"{value:,}"


def _too_long(error: Any, path: Path, written: str | None) -> str:
    most, what = error["ctx"]["max_length"], "characters"
    count = len(error["input"])
    if error["type"] == "too_long":
        what = "entries"
    return f"has {count:,} {what}, at most {most:,} are allowed"


def _too_short(error: Any, path: Path, written: str | None) -> str:
    return f"is empty: give at least {error['ctx']['min_length']}"


_Said = Callable[[Any, Path, str | None], str]
_SAID: dict[str, _Said] = {
    "string_pattern_mismatch": _pattern,
    "string_type": _text,
    "literal_error": _choice,
    "list_type": _list,
    "dict_type": _mapping,
    "model_type": _mapping,
    "model_attributes_type": _mapping,
    "greater_than_equal": _limit("at least", "ge"),
    "less_than_equal": _limit("at most", "le"),
    "greater_than": _limit("more than", "gt"),
    "less_than": _limit("less than", "lt"),
    "string_too_long": _too_long,
    "too_long": _too_long,
    "string_too_short": _too_short,
    "too_short": _too_short,
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float"), lambda *_: "should be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), lambda *_: "should be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), lambda *_: "write true or false"),
}
_QUIET = frozenset(
    {UNSHOWN, NEEDED, "where", "string_too_long", "too_long", "string_too_short", "too_short"}
)
