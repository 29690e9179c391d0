"""A real standalone Spark cluster on loopback, from the wheel: a master and workers of one core."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from tests.support.stack import wait_for
from trace_platform.app.instance.home import Home
from trace_platform.operators.spark.authentication import AUTHENTICATED
from trace_platform.operators.spark.java import java_home

_REPOSITORY = Path(__file__).parents[2]
_SPARK = Path(pyspark.__file__).parent
# The whole cluster goes when the test run is killed: its standard input ends with it.
_END_WITH_TEST = 'cat >/dev/null; kill -9 -- "-$$"'
_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""


@dataclass
class Daemon:
    """A master or a worker, with everything that it starts in one session."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.log.read_text(errors="replace"))

    def awaits(self, pattern: str) -> re.Match[str]:
        def said() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            return self.says(pattern)

        return wait_for(f"{pattern} in {self.log.name}", said, 90)

    def kill(self) -> None:
        """SIGKILL to the node: the daemon, its executors, their Python workers."""
        for number in _session(self.process.pid):
            _kill(number)
        self.process.wait(30)
        assert self.process.stdin is not None
        self.process.stdin.close()


@dataclass
class SparkCluster:
    folder: Path
    java_home: str
    # What its daemons know, and who wants to use it.
    secret: str | None
    master: Daemon
    url: str
    workers: list[Daemon] = field(default_factory=list)

    @property
    def conf(self) -> dict[str, str]:
        """What an application on one small machine needs to say."""
        return {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            # Test modules are not installed on the nodes, and the package there may be another
            # checkout's.
            "spark.executorEnv.PYTHONPATH": f"{_REPOSITORY / 'src'}{os.pathsep}{_REPOSITORY}",
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        }

    def add_worker(self) -> Daemon:
        name = f"worker-{len(self.workers) + 1}"
        work = self.folder / name
        main = "org.apache.spark.deploy.worker.Worker"
        args = ["--cores", "1", "--memory", "640m", "--work-dir", str(work), *_ADDRESS, self.url]
        found = _start(self.folder, self.java_home, self.secret, name, main, args)
        self.workers.append(found)
        return found

    def pids(self) -> list[int]:
        """Of all that it runs: daemons, executors, their Python workers. What has ended has no
        command line any more."""
        daemons = [each.process.pid for each in (self.master, *self.workers)]
        return [pid for daemon in daemons for pid in _session(daemon) if _command(pid)]

    def executors(self) -> list[int]:
        """Pids of the executors that run."""
        daemons = [worker.process.pid for worker in self.workers]
        return sorted(pid for daemon in daemons for pid in _session(daemon) if _is_executor(pid))

    def kill_executors(self) -> None:
        for pid in self.executors():
            _kill(pid)

    def python_workers(self) -> list[int]:
        """Pids of the Python processes of executors."""
        daemons = [worker.process.pid for worker in self.workers]
        return [pid for daemon in daemons for pid in _session(daemon) if _is_python(pid)]

    def close(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


def give_secret(home: Home, cluster: SparkCluster) -> None:
    assert cluster.secret is not None
    (home.secrets / "spark_secret").write_text(cluster.secret)


_ADDRESS = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]


@contextmanager
def spark_cluster(
    folder: Path, workers: int = 2, secret: str | None = "of the cluster"
) -> Iterator[SparkCluster]:
    """Ready inside the context; nothing of it is left afterwards. Without a secret it is one whose
    owner has not read how to run it."""
    folder.mkdir(parents=True, exist_ok=True)
    home = java_home(folder)
    main = "org.apache.spark.deploy.master.Master"
    master = _start(folder, home, secret, "master", main, _ADDRESS)
    cluster = SparkCluster(folder, home, secret, master, "")
    try:
        cluster.url = master.awaits(r"Starting Spark master at (spark://[\d.:]+)")[1]
        for _ in range(workers):
            cluster.add_worker()
        for worker in cluster.workers:
            worker.awaits("Successfully registered with master")
        yield cluster
    finally:
        cluster.close()


def _start(
    folder: Path, home: str, secret: str | None, name: str, main: str, args: list[str]
) -> Daemon:
    (folder / "log4j2.properties").write_text(_LOG4J)
    log = folder / f"{name}.log"
    logging = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    env = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": home,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / f"{name}-local"),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": f"{logging} -Dspark.master.rest.enabled=false",
        **({"SPARK_CONF_DIR": str(_conf(folder)), "_SPARK_AUTH_SECRET": secret} if secret else {}),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("site-packages")),
    }
    command = [str(_SPARK / "bin" / "spark-class"), main, *args]
    script = f'"$0" "$@" </dev/null & {_END_WITH_TEST}'
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", script, *command],
            env=env,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Daemon(process, log)


def _conf(folder: Path) -> Path:
    """The settings of daemons that docs/spark-cluster.md shows."""
    place = folder / "conf"
    place.mkdir(exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in AUTHENTICATED.items()]
    (place / "spark-defaults.conf").write_text("".join(lines))
    return place


def _session(leader: int) -> list[int]:
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _is_executor(pid: int) -> bool:
    return any("CoarseGrainedExecutorBackend" in part for part in _command(pid))


def _is_python(pid: int) -> bool:
    command = _command(pid)
    return "pyspark.daemon" in " ".join(command) and not _is_executor(pid)
