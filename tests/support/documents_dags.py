"""YAML of pages as whole DAG files: what a page leaves out of a fragment is put around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

Fields = dict[str, Any]


# Of a job whose rows are looked at.
_DECODES: Fields = {
    "operator": "log_decode",
    "config": {"abis": ["erc20.Transfer"]},
    "outputs": ["transfers", "undecoded"],
}


def is_dag(text: str) -> bool:
    """A whole DAG or a part of one; not a file of another program."""
    read = yaml.safe_load(text)
    return isinstance(read, list) or bool(read.keys() & {"jobs", "inputs", "publish"})


def is_whole(text: str) -> bool:
    read = yaml.safe_load(text)
    return isinstance(read, dict) and read.keys() >= {"name", "jobs"}


def completed(text: str) -> str:
    """The fragment in a DAG; jobs that it refers to and does not show are manual sources."""
    dag = _framed(yaml.safe_load(text))
    dag["jobs"] = [_whole_job(job) for job in dag["jobs"]]
    known = {job["name"] for job in dag["jobs"]}
    missing: dict[str, list[str]] = {}
    for job, output in _read(dag):
        if job not in known:
            missing.setdefault(job, []).append(output)
    dag["jobs"] = [*map(_source, missing, missing.values()), *dag["jobs"]]
    return yaml.safe_dump(dag, sort_keys=False)


def own_runtimes(text: str) -> set[str]:
    return {job["runtime"] for job in yaml.safe_load(text)["jobs"] if "runtime" in job}


def _framed(fragment: Any) -> Fields:
    if isinstance(fragment, list) and all("kind" in each for each in fragment):
        return {"name": "page", "jobs": [{"name": "checked", **_DECODES, "checks": fragment}]}
    if isinstance(fragment, list):
        return {"name": "page", "jobs": fragment}
    if "inputs" in fragment:
        return {"name": "page", "jobs": [{"name": "reader", **fragment}]}
    return {"name": "page", "jobs": [], **fragment}


def _whole_job(job: Fields) -> Fields:
    if job.get("activation") == "source" or "source" in job:
        return job
    around = {"activation": "reactive", "runtime": "ecs_platform", "operator": "no_op"}
    return {**around, "inputs": [{"from": {"job": "before"}}], **job}


def _source(name: str, outputs: list[str]) -> Fields:
    named = list(dict.fromkeys(outputs))
    return {
        "name": name,
        "activation": "source",
        "source": {"kind": "manual"},
        "outputs": named,
    }


def _read(dag: Fields) -> Iterator[tuple[str, str]]:
    """Job and output of each reference."""
    edges = [edge["from"] for job in dag["jobs"] for edge in job.get("inputs", [])]
    for published in dag.get("publish", {}).values():
        found = published["from"]
        edges += found if isinstance(found, list) else [found]
        edges += [published["cold"]] if "cold" in published else []
    for edge in edges:
        if "job" in edge:
            yield edge["job"], edge.get("output", "output_0")
