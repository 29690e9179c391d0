"""Code beside a DAG file: what belongs to it, how it is checked, and that no checker runs it."""

from __future__ import annotations

import builtins
import json
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from trace_platform.app.code_beside import code_beside
from trace_platform.cli import app
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.own_code import (
    MAX_BYTES,
    Code,
    CodeRef,
    canonical,
    digest_of,
    parse,
    refuse_too_much,
)
from trace_platform.domain.runtimes import Runtimes
from trace_platform.operators.own import inspect, installed
from trace_platform.operators.own.load_code import CodeLoader

DAG = """
name: own
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: first
    activation: reactive
    runtime: ecs_platform
    operator: ./my_ops.py:First
    inputs: [{ from: { job: request } }]
    config: { size: 5 }
  - name: beside
    activation: reactive
    runtime: ecs_platform
    operator: ./other_ops.py:Other
    inputs: [{ from: { job: request } }]
  - name: after
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: first } }]
"""
FIRST = """
from pydantic import Field
from trace_platform.operators.accepts import ONE_RANGE, RANGE
from trace_platform.operators.contract import OperatorConfig, Result
from .units import GWEI


class First:
    class Config(OperatorConfig):
        size: int = Field(ge=1)

    accepts = ONE_RANGE
    emits = RANGE

    def run(self, task):
        return Result()
"""
OTHER = "class Other:\n    def run(self, task):\n        return None\n"
FILES = {"my_ops.py": FIRST, "units.py": "GWEI = 10**9\n", "other_ops.py": OTHER}


def problems(dag: str = DAG, code: Code | None = None, **files: str) -> list[str]:
    """Line, path and what is said, of each."""
    named = {f"{name}.py": text for name, text in files.items()}
    try:
        check_dag(dag, code=code or Code(FILES | named))
    except DagErrors as found:
        return [f"{error.line} {error.field}: {error.problem}" for error in found.errors]
    return []


def test_a_class_beside_the_dag_is_an_operator_like_any_other() -> None:
    assert problems() == []
    # What wakes it, and its config, are held against what it says.
    (said,) = problems(DAG.replace("size: 5", "size: 0"))
    assert said == "10 jobs[1].config.size: must be at least 1 (found 0)"
    (said,) = problems(DAG.replace("size: 5", "size: 5, sice: 1"))
    assert "did you mean 'size'?" in said
    (said,) = problems(DAG.replace("size: 5 }", "size: 5 }\n    execution_strategy: Bulk"))
    assert "takes one block range" in said


HALF_MADE = (
    ("x = (", "my_ops.py:1: '(' was never closed"),
    ("import nothing_of_that_name", "ModuleNotFoundError"),
    ("import units", "imported with a dot"),
    ("raise OSError('no luck')", "cannot be imported: OSError: no luck"),
    ("import os; os._exit(3)", "ended its process"),
    ("Other = 5", "has no class First"),
    ("class First: pass", "needs def run(self, task)"),
    ("class First:\n def __init__(self, x): ...\n def run(self, task): ...", "__init__"),
    ("class First:\n Config = dict\n def run(self, task): ...", "below OperatorConfig"),
    ("class First:\n output_names = ['a']\n def run(self, task): ...", "tuple of names"),
    ("class First:\n accepts = 'range'\n def run(self, task): ...", "ONE_RANGE"),
    ("from ..other import x", "only files beside it"),
    ("from .missing import x", "missing.py is not there"),
)


def test_what_is_no_operator_is_said_at_its_line() -> None:
    for code, said in HALF_MADE:
        (found,) = problems(my_ops=code)
        assert found.startswith("8 jobs[1].operator: "), found
        assert said in found, code


def test_code_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "TIMEOUT_S", 4.0)
    # It alone: what is asked with others is asked once more by itself.
    alone = DAG.replace("./other_ops.py:Other", "no_op")
    (found,) = problems(alone, my_ops="while True: pass")
    assert "did not answer within 4 s" in found


def test_the_code_runs_in_another_process_that_has_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_SECRET_DEEP", "hush")
    told = tmp_path / "told"
    spy = f"""
import json, os
with open({str(told)!r}, "w") as file:
    json.dump([os.getpid(), dict(os.environ), os.getcwd()], file)
print("on standard output, where the answer goes")
"""
    assert problems(my_ops=spy + FIRST) == []
    pid, environment, folder = json.loads(told.read_text())
    assert pid != os.getpid()
    assert "hush" not in environment.values()
    assert not Path(folder).exists()


def test_an_edit_is_another_operator_for_the_job_and_all_that_reads_it() -> None:
    before = fingerprints(check_dag(DAG, code=Code(FILES)))
    edited = FILES | {"my_ops.py": FIRST.replace("Result()", "Result(outputs=[])")}
    after = fingerprints(check_dag(DAG, code=Code(edited)))
    assert {job for job in before if before[job] != after[job]} == {"first", "after"}
    # What the file imports belongs to it.
    deeper = fingerprints(check_dag(DAG, code=Code(FILES | {"units.py": "GWEI = 1\n"})))
    assert {job for job in before if before[job] != deeper[job]} == {"first", "after"}
    assert fingerprints(check_dag(DAG, code=Code(FILES | {"more.py": ""}))) == before


def test_other_runtimes_and_instances_that_switched_it_off_refuse_it() -> None:
    known = Runtimes.default()
    (off, _) = problems(code=Code(FILES, allowed=False))
    assert "[operators] beside_dags = true" in off
    in_dispatcher = DAG.replace("runtime: ecs_platform", "runtime: dispatcher", 1)
    assert any("ecs_platform alone" in said for said in problems(in_dispatcher))
    assert known.get("dispatcher").kind == "dispatcher"


def test_only_files_beside_the_dag_can_be_named() -> None:
    for operator in (
        "../my_ops.py:First",
        "./../my_ops.py:First",
        "./sub/my_ops.py:First",
        "/etc/my_ops.py:First",
        "./my_ops.txt:First",
        "./my_ops.py",
        "my_ops.py:First",
        "./.hidden.py:First",
        "./my_ops.py:First@" + "0" * 64,
    ):
        (said,) = problems(DAG.replace("./my_ops.py:First", operator))
        assert "./my_ops.py:BigBlocks" in said
        assert parse(operator) is None or "@" in operator


def test_more_code_than_is_sensible_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="at most 32 files"):
        refuse_too_much({f"m{n}.py": "" for n in range(33)})
    with pytest.raises(InvalidConfig, match="262,144 bytes"):
        refuse_too_much({"my_ops.py": "#" * (MAX_BYTES + 1)})
    with pytest.raises(InvalidConfig, match="no name of a"):
        refuse_too_much({"../my_ops.py": ""})


def lint(folder: Path) -> str:
    done = CliRunner().invoke(app, ["dag", "lint", str(folder / "dag.yaml")])
    return done.output


def written(folder: Path, **files: str) -> Path:
    (folder / "dag.yaml").write_text(DAG)
    for name, text in (FILES | {f"{name}.py": text for name, text in files.items()}).items():
        (folder / name).write_text(text)
    return folder


def test_lint_reads_the_files_beside_the_dag(tmp_path: Path) -> None:
    assert "ok: 4 jobs" in lint(written(tmp_path))
    (tmp_path / "my_ops.py").unlink()
    assert ":8:" in lint(tmp_path)
    assert "my_ops.py is not in" in lint(tmp_path)


def test_neither_links_nor_other_bytes_than_text_are_sent(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "secret").write_text("SECRET = 1")
    (tmp_path / "my_ops.py").unlink()
    (tmp_path / "my_ops.py").symlink_to(tmp_path / "secret")
    (tmp_path / "other_ops.py").write_bytes(b"\xff\xfe")
    found = code_beside(tmp_path, DAG)
    assert found.files == {}
    assert "is a link" in found.unreadable["my_ops.py"]
    assert "UTF-8" in found.unreadable["other_ops.py"]
    assert "is a link" in lint(tmp_path)


def test_operators_show_tells_of_a_file_without_an_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(tmp_path))
    done = CliRunner().invoke(app, ["operators", "show", "./my_ops.py:First", "--json"])
    told = json.loads(done.output)
    assert (told["origin"], told["emits"], told["accepts"]["several"]) == (
        "my_ops.py",
        ["range"],
        False,
    )
    (field,) = told["fields"]
    assert (field["name"], field["type"], field["required"]) == ("size", "integer, 1 or more", True)


# --- packages that are installed


@pytest.fixture
def package() -> Iterator[str]:
    """A package with an operator, as an installer leaves it."""
    site, name = Path(sysconfig.get_path("purelib")), f"trace_test_ops_{os.getpid()}"
    info = site / f"{name}-1.0.dist-info"
    module = site / f"{name}.py"
    info.mkdir()
    try:
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = "[trace_platform.operators]\n"
        points += f"packed = {name}:First\nno_op = {name}:First\nbroken = {name}:Nothing\n"
        (info / "entry_points.txt").write_text(points)
        module.write_text(FIRST.replace("from .units import GWEI\n", ""))
        installed.installed.cache_clear()
        yield name
    finally:
        for path in (*info.iterdir(), module):
            path.unlink()
        info.rmdir()
        installed.installed.cache_clear()


def test_operators_of_installed_packages_are_known_by_name(package: str) -> None:
    packed = DAG.replace("./my_ops.py:First", "packed")
    assert problems(packed) == []
    (said,) = problems(packed.replace("size: 5", "size: 0"))
    assert "must be at least 1" in said
    (said,) = problems(packed.replace("packed", "packet"))
    assert "did you mean packed?" in said
    (said,) = problems(DAG.replace("./my_ops.py:First", "broken"))
    assert "cannot be imported: AttributeError" in said


def test_the_list_tells_where_an_operator_comes_from_and_no_package_takes_a_name_of_ours(
    package: str,
) -> None:
    done = CliRunner().invoke(app, ["operators", "list", "--json"])
    told = {each["name"]: each for each in json.loads(done.stdout)}
    assert told["packed"]["origin"] == f"package {package} 1.0"
    assert told["no_op"]["origin"] == "Trace"
    assert "cannot be imported" in told["broken"]["problem"]
    assert {"cryo_ingest", "aggregator"} <= told.keys()


def test_to_load_code_leaves_alone_how_other_modules_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads import meanwhile."""
    monkeypatch.setattr("importlib.invalidate_caches", lambda: pytest.fail("all is forgotten"))
    monkeypatch.setitem(sys.path_importer_cache, "relative", None)
    files = {"alone.py": "class Alone: pass\n"}
    loader = CodeLoader(tmp_path, lambda _: canonical(files))
    assert loader.load(CodeRef("alone.py", "Alone", digest_of(files))).__name__ == "Alone"
    assert "relative" in sys.path_importer_cache


def test_code_that_is_slow_to_import_keeps_no_other_waiting(tmp_path: Path) -> None:
    slow = {"slow.py": "import builtins\nbuiltins.trace_gate.wait(20)\nclass Slow: pass\n"}
    quick = {"quick.py": "class Quick: pass\n"}
    contents = {digest_of(files): canonical(files) for files in (slow, quick)}
    loader = CodeLoader(tmp_path, contents.__getitem__)
    gate = threading.Event()
    with patch.object(builtins, "trace_gate", gate, create=True), ThreadPoolExecutor() as pool:
        waiting = pool.submit(loader.load, CodeRef("slow.py", "Slow", digest_of(slow)))
        loaded = pool.submit(loader.load, CodeRef("quick.py", "Quick", digest_of(quick)))
        try:
            assert loaded.result(10).__name__ == "Quick"
            assert not waiting.done()
        finally:
            gate.set()
        assert waiting.result(10).__name__ == "Slow"
