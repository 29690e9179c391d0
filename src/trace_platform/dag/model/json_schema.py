"""The DAG file as a JSON Schema, for editors: completion, descriptions, first errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trace_platform.dag.model.dag import Dag

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def editor_schema(
    operators: Mapping[str, Mapping[str, Any]] | None = None, runtimes: Iterable[str] = ()
) -> dict[str, Any]:
    """The schema of a DAG file. `operators` has the schema of each one's config, by name.

    It knows the shape of a file and the rules of one job; `trace dag lint` knows all rules.
    """
    schema = _plain(Dag.model_json_schema(by_alias=True, mode="validation"))
    job, publish = schema["$defs"]["Job"], schema["$defs"]["Publish"]
    _allow_count_of_outputs(job)
    _allow_short_columns(publish)
    _allow_one_output(publish)
    if operators:
        job["properties"]["operator"]["examples"] = sorted(operators)
    if runtimes:
        job["properties"]["runtime"]["examples"] = list(runtimes)
    job["allOf"] = [*_JOB_RULES, *_config_rules(schema, operators or {})]
    return {"$schema": DIALECT, **schema, "title": "Trace DAG"}


def _plain(value: Any) -> Any:
    """Without what only confuses an editor: null for a field that is left out, OpenAPI's words."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(inner) for key, inner in value.items() if key != "discriminator"}
    if "patternProperties" in plain:
        plain["additionalProperties"] = False
    choices = plain.get("anyOf", [])
    if {"type": "null"} not in choices:
        return plain
    rest = [each for each in choices if each != {"type": "null"}]
    del plain["anyOf"]
    if plain.get("default", 0) is None:
        del plain["default"]
    return {**rest[0], **plain} if len(rest) == 1 else {"anyOf": rest, **plain}


def _allow_count_of_outputs(job: dict[str, Any]) -> None:
    names = job["properties"]["outputs"]
    kept = {key: names.pop(key) for key in ("type", "items", "minItems", "maxItems")}
    names["anyOf"] = [kept, {"type": "integer", "minimum": 1, "maximum": kept["maxItems"]}]


def _allow_short_columns(publish: dict[str, Any]) -> None:
    columns = publish["properties"]["schema"]["patternProperties"]
    for pattern, column in columns.items():
        columns[pattern] = {"anyOf": [{"$ref": "#/$defs/Column/properties/type"}, column]}


def _allow_one_output(publish: dict[str, Any]) -> None:
    several = publish["properties"]["from"]
    kept = {key: several.pop(key) for key in ("type", "items", "minItems", "maxItems")}
    several["anyOf"] = [{"$ref": "#/$defs/JobOutputRef"}, kept]


def _when(field: str, value: str) -> dict[str, Any]:
    return {"properties": {field: {"const": value}}, "required": [field]}


def _without(*fields: str) -> dict[str, Any]:
    return {"properties": dict.fromkeys(fields, False)}


# What dag_job_rules says, as far as a schema can.
_JOB_RULES: tuple[dict[str, Any], ...] = (
    {
        "if": _when("activation", "reactive"),
        "then": {
            "required": ["runtime", "operator", "inputs"],
            **_without("source", "bootstrap"),
        },
    },
    {
        "if": _when("activation", "source"),
        "then": {
            "required": ["source"],
            **_without("inputs", "execution_strategy", "scaling", "backpressure", "idle_timeout"),
        },
    },
    {"if": _when("operator", "udf"), "then": {"required": ["udf"]}, "else": _without("udf")},
    {
        "if": _when("update_strategy", "append"),
        "then": {"required": ["unique_key"]},
        "else": _without("unique_key"),
    },
    {
        "if": {
            "properties": {"source": {"properties": {"kind": {"const": "always_on"}}}},
            "required": ["source"],
        },
        "then": {"required": ["runtime", "operator"]},
    },
    {
        "if": {
            "properties": {"source": {"properties": {"kind": {"enum": ["cron", "webhook"]}}}},
            "required": ["source"],
        },
        "then": _without("runtime", "operator", "config", "secrets"),
    },
)


def _config_rules(
    schema: dict[str, Any], operators: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """An operator's own fields, where its name says which they are."""
    rules = []
    for name, config in sorted(operators.items()):
        own = f"{name}_config"
        schema["$defs"][own] = _moved(_plain(dict(config)), own)
        needed = {"required": ["config"]} if config.get("required") else {}
        then = {"properties": {"config": {"$ref": f"#/$defs/{own}"}}} | needed
        rules.append({"if": _when("operator", name), "then": then})
    return rules


def _moved(value: Any, own: str) -> Any:
    """References within a config's schema, from where it stands now."""
    if isinstance(value, dict):
        return {
            key: inner.replace("#/$defs/", f"#/$defs/{own}/$defs/")
            if key == "$ref" and isinstance(inner, str)
            else _moved(inner, own)
            for key, inner in value.items()
        }
    return [_moved(inner, own) for inner in value] if isinstance(value, list) else value
