"""`trace dag`: checking, drawing and editing DAG files, with no instance anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from typer.testing import CliRunner, Result

import trace_platform
from tests.unit.cli.test_new_user_mistakes import mistakes
from trace_platform.cli.dag import dag_app

EXAMPLES = Path(trace_platform.__file__).parent / "examples"
DOCS = Path(__file__).parents[3] / "docs" / "dag.md"
DIAMOND = """
name: diamond
jobs:
  - { name: start, activation: source, source: { kind: manual } }
  - { name: left, activation: reactive, runtime: ecs_platform, operator: no_op,
      inputs: [{ from: { job: start } }], outputs: [a, b] }
  - { name: right, activation: reactive, runtime: ecs_platform, operator: no_op,
      inputs: [{ from: { job: start } }, { from: { dataset: elsewhere } }] }
  - { name: end, activation: reactive, runtime: ecs_platform, operator: no_op,
      inputs: [{ from: { job: left, output: b } }, { from: { dataset: joined } }] }
publish:
  joined: { from: { job: right } }
  result: { from: { job: end } }
"""


def run(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(dag_app, args, input=stdin)


@pytest.fixture
def diamond(tmp_path: Path) -> Path:
    file = tmp_path / "diamond.yaml"
    file.write_text(DIAMOND)
    return file


def test_lint_says_what_a_file_has(diamond: Path) -> None:
    done = run("lint", str(diamond), str(EXAMPLES / "chain.yaml"))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{diamond}: ok: 4 jobs, 2 published datasets; reads from other DAGs: elsewhere",
        f"{EXAMPLES / 'chain.yaml'}: ok: 4 jobs, 3 published datasets",
    ]


def test_lint_asks_whether_a_dataset_of_the_file_is_meant() -> None:
    done = run("lint", "-", stdin=DIAMOND.replace("dataset: joined", "dataset: joint"))
    assert "elsewhere, joint (or is 'joined' of this one meant?)" in done.stdout


def test_lint_takes_no_longer_name_for_a_mistyped_one() -> None:
    done = run("lint", str(EXAMPLES / "export.yaml"))
    assert done.exit_code == 0
    assert "meant" not in done.stdout


def test_lint_goes_on_after_a_file_with_errors(tmp_path: Path, diamond: Path) -> None:
    bad = tmp_path / "sub" / "bad.yml"
    bad.parent.mkdir()
    bad.write_text(DIAMOND.replace("no_op", "noop", 1))
    (tmp_path / "notes.txt").write_text("no DAG")
    done = run("lint", str(tmp_path), str(tmp_path / "gone.yaml"))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{diamond}: ok: 4 jobs, 2 published datasets; reads from other DAGs: elsewhere",
        f"{bad}:5:64: jobs[1].operator: there is no operator 'noop'; did you mean no_op?",
        f"{bad}: 1 error",
        f"{tmp_path / 'gone.yaml'}:1:1: cannot be read: No such file or directory",
        f"{tmp_path / 'gone.yaml'}: 1 error",
    ]


def test_lint_reads_standard_input_and_answers_in_json() -> None:
    good, bad = run("lint", "-", "--json", stdin=DIAMOND), run("lint", "-", "--json", stdin="a: 1")
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert json.loads(good.stdout)[0] | {"errors": 0} == {
        "file": "standard input",
        "ok": True,
        "dag": "diamond",
        "jobs": 4,
        "published": 2,
        "reads_from_other_dags": ["elsewhere"],
        "errors": 0,
        "more_errors": 0,
        "warnings": [],
    }
    found = json.loads(bad.stdout)[0]
    assert (found["ok"], found["errors"][0]["line"], found["errors"][0]["field"]) == (False, 1, "")


def test_lint_warns_of_fields_that_nothing_acts_on(tmp_path: Path) -> None:
    file = tmp_path / "idle.yaml"
    file.write_text(DIAMOND.replace("outputs: [a, b] }", "outputs: [a, b], idle_timeout: 5m }"))
    done = run("lint", str(file))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{file}:6:60: warning: jobs[1].idle_timeout: no worker is stopped when it is idle yet",
        f"{file}: ok: 4 jobs, 2 published datasets; reads from other DAGs: elsewhere",
    ]
    (found,) = json.loads(run("lint", "--json", str(file)).stdout)
    assert (found["ok"], found["warnings"][0]["line"]) == (True, 6)
    assert found["warnings"][0]["field"] == "jobs[1].idle_timeout"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: d\nx: \xff\n", ":2:4: is no UTF-8: save it as that"),
        (b"x" * 2_000_000, ":1:1: the file has more than 1,000,000 bytes: split the DAG"),
        (b"", ":1:1: the file is empty"),
    ],
)
def test_lint_refuses_what_is_no_text(content: bytes, said: str) -> None:
    done = run("lint", "-", stdin=content)
    assert (done.exit_code, said in done.stdout) == (1, True)


def test_lint_knows_runtimes_by_name() -> None:
    own = DIAMOND.replace("runtime: ecs_platform, operator: no_op", "runtime: gpu, operator: x", 1)
    assert "there is no runtime 'gpu'" in run("lint", "-", stdin=own).stdout
    assert run("lint", "-", "--runtime", "gpu", stdin=own).exit_code == 0
    # Which function is called is no matter of the file.
    assert run("lint", "-", stdin=own.replace("gpu", "lambda")).exit_code == 0


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    assert run("lint", str(tmp_path)).exit_code != 0


def test_a_drawing_shows_jobs_outputs_and_names(diamond: Path) -> None:
    done = run("graph", str(diamond))
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "diamond: 4 jobs, 2 published datasets",
        "",
        "●    start  manual source",
        "├─●  left   no_op on ecs_platform · a, b",
        "● │  right  no_op on ecs_platform",
        "│ │         ← start, elsewhere (another DAG)",
        "│ │         output_0 → joined",
        "●─╯  end    no_op on ecs_platform",
        "            ← left.b, right",
        "            output_0 → result",
    ]


def test_a_drawing_without_unicode_has_the_same_shape(diamond: Path) -> None:
    command = [sys.executable, "-m", "trace_platform.cli", "dag", "graph", str(diamond)]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    lines = done.stdout.decode("ascii").splitlines()
    assert lines[2:4] == ["*    start  manual source", "+-*  left   no_op on ecs_platform - a, b"]


def test_mermaid_and_json_hold_every_edge(diamond: Path) -> None:
    lines = run("graph", str(diamond), "--format", "mermaid").stdout.splitlines()
    assert lines[0] == "flowchart LR"
    assert [line.strip() for line in lines if "-->" in line] == [
        "job_start -->|output_0| job_left",
        "job_start -->|output_0| job_right",
        "elsewhere_elsewhere -->|rows| job_right",
        "job_left -->|b| job_end",
        "job_right -->|output_0| job_end",
        "job_right -->|output_0| dataset_joined",
        "job_end -->|output_0| dataset_result",
    ]
    found = json.loads(run("graph", str(diamond), "--format", "json").stdout)
    layers = {job["name"]: job["layer"] for job in found["jobs"]}
    assert layers == {"start": 0, "left": 1, "right": 1, "end": 2}
    assert found["reads_from_other_dags"] == ["elsewhere"]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(run("schema").stdout)


def test_the_schema_is_one_of_draft_2020_12(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.Draft202012Validator(schema)
    assert jsonschema_rs.meta.is_valid(schema)
    # Words that no JSON Schema knows would be ignored, and so would be what they forbid.
    assert not {"gt", "ge", "lt", "le", "discriminator"} & _keywords(schema)


def test_every_field_tells_an_editor_what_it_is_for(schema: dict[str, Any]) -> None:
    fields = schema["$defs"]["Job"]["properties"] | schema["$defs"]["Publish"]["properties"]
    assert not [name for name, field in fields.items() if not field.get("description")]


def test_the_schema_accepts_what_is_right(schema: dict[str, Any]) -> None:
    check = jsonschema_rs.Draft202012Validator(schema)
    filtered = DIAMOND.replace(
        "[{ from: { job: start } }]", "[{ from: { job: start }, where: n > 1 }]"
    )
    files = [
        DIAMOND,
        filtered,
        *(file.read_text() for file in EXAMPLES.glob("*.yaml")),
        *documented(),
    ]
    for text in files:
        assert [error.message for error in check.iter_errors(yaml.safe_load(text))] == []


def test_the_schema_finds_common_mistakes(schema: dict[str, Any]) -> None:
    """As far as a schema can: references and cycles are for lint."""
    check = jsonschema_rs.Draft202012Validator(schema)
    found = {mistake.title for mistake in mistakes() if not _valid(check, mistake.yaml)}
    assert {
        "`input` for `inputs`",
        "A job's name with dashes and capitals",
        "A source with inputs",
        "A reactive job without inputs",
        "An unknown kind of source",
        "A cron source with an operator",
        "An always_on source without an operator",
        "A config field that the operator does not have",
        "A config field that is missing",
        "A time-out in words",
        "A priority that does not exist",
        "Text where a list belongs",
        "A secret's value instead of its name",
        "`append` without a key",
        "A column type of another database",
    } <= found


def _valid(check: Any, text: str) -> bool:
    try:
        return bool(check.is_valid(yaml.safe_load(text)))
    except yaml.YAMLError:
        return False


def _keywords(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keywords, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(_keywords, value.values()))


def documented() -> list[str]:
    """The complete files in docs/dag.md."""
    blocks = DOCS.read_text().split("```yaml\n")[1:]
    return [b.split("```")[0] for b in blocks if b.startswith(("name:", "# yaml-language-server"))]


def test_the_files_of_the_documentation_are_right() -> None:
    assert len(documented()) >= 4
    for text in documented():
        done = run("lint", "-", "--runtime", "followers", "--runtime", "ecs_udf", stdin=text)
        assert done.exit_code == 0, done.stdout


@pytest.mark.parametrize("example", ["chain", "follow"])
def test_the_examples_check_what_they_write(example: str) -> None:
    dag = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    writer = "ingest" if example == "chain" else "compact"
    check = next(job for job in dag["jobs"] if job.get("operator") == "integrity_check")
    assert [each["from"]["job"] for each in check["inputs"]] == [writer] * 3
