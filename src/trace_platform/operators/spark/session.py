"""One warm Spark session per worker process, shared by its task threads."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_platform.domain.errors import TraceError, Unavailable
from trace_platform.operators.spark.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# A Unix socket's path holds 107 bytes, and Spark adds a name of 42 to the directory.
_MAX_SOCKET_DIR = 60
_JVM_STOP_S = 20.0

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class SparkRuntime:
    """Starts Spark when it is first needed, and again when its JVM is gone. Thread-safe.

    `conf` wins over the defaults here. Everything Spark writes is under `scratch`: its log
    (`spark.log`), what the JVM says before it can log (`spark.out`), and its temporary files.
    """

    def __init__(
        self,
        scratch: str | Path,
        *,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch = Path(scratch).absolute()
        self._master = master
        self._conf = dict(conf or {})
        self._starting = threading.Lock()
        self._session: SparkSession | None = None
        self._jvm: subprocess.Popen[bytes] | None = None
        self._sockets: str | None = None
        self._java_home: str | None = None

    def session(self) -> SparkSession:
        """The session, started when there is none; callers that come meanwhile wait for it."""
        with self._starting:
            if self._session is None or not self._is_alive():
                if self._jvm is not None:
                    self._jvm.kill()  # what is broken is not asked to stop; it may be half dead
                    self._jvm.wait()
                self._discard()
                self._start()
            assert self._session is not None
            return self._session

    def warm_up(self) -> None:
        """Start the session and its Python workers, so that the first task finds them ready."""
        context = self.session().sparkContext
        n = context.defaultParallelism
        context.parallelize(range(n), n).foreach(_import_what_tasks_need)

    @contextlib.contextmanager
    def task_thread(self, tag: str) -> Iterator[Callable[[], SparkSession]]:
        """In the task's thread: gives `spark()`, whose jobs from this thread carry the tag.

        Spark starts with the first call of `spark()`, not before: many tasks need none.
        """

        tagged = []

        def spark() -> SparkSession:
            session = self.session()
            tagged.append(tag)
            session.sparkContext.addJobTag(tag)
            return session

        try:
            yield spark
        finally:
            with contextlib.suppress(Exception):  # the JVM may be gone, and its tags with it
                if tagged and self._session is not None:
                    self._session.sparkContext.removeJobTag(tag)

    def progress(self, tag: str) -> tuple[int, int]:
        """Spark tasks done and known of the tag's jobs; (0, 0) when there are none."""
        session = self._session
        if session is None:
            return 0, 0
        try:
            return _progress(session, tag)
        except Exception:
            # Progress is for people; a JVM that is going away is reported by the task itself.
            return 0, 0

    def cancel(self, tag: str) -> None:
        """Stop the tag's jobs, from any thread. Jobs submitted later are not touched."""
        session = self._session
        if session is not None:
            with contextlib.suppress(Exception):
                session.sparkContext.cancelJobsWithTag(tag)

    def stop(self) -> None:
        """End the session and its JVM. One that is still starting is not waited for: its JVM ends
        when this process does, because that closes its standard input."""
        if not self._starting.acquire(timeout=0.5):
            self._remove_sockets()
            return
        try:
            self._discard()
        finally:
            self._starting.release()

    @property
    def jvm_pid(self) -> int | None:
        return self._jvm.pid if self._jvm is not None else None

    def _is_alive(self) -> bool:
        if self._jvm is None or self._jvm.poll() is not None or self._session is None:
            return False
        try:
            return not self._session.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False

    def _start(self) -> None:
        try:
            self._prepare()
            self._launch()
        except TraceError:
            raise
        except Exception as error:
            self._discard()
            raise Unavailable(
                f"Spark did not start: {self._last_words() or error}",
                hint="`trace doctor` checks Java; Spark's own words are in spark.out and spark.log",
            ) from error

    def _prepare(self) -> None:
        for name in ("local", "warehouse", "tmp"):
            (self._scratch / name).mkdir(parents=True, exist_ok=True)
        (self._scratch / "log4j2.properties").write_text(
            _LOG4J.format(log=self._scratch / "spark.log")
        )
        os.environ.update(self._environment())
        # They write a stack trace of every error that they raise to standard error as well.
        for noisy in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)

    def _environment(self) -> dict[str, str]:
        """What pyspark reads from the process's environment, and hands to the JVM."""
        import pyspark

        # Once: after that JAVA_HOME is our own.
        self._java_home = self._java_home or java_home(self._scratch)
        env = {
            "JAVA_HOME": self._java_home,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),  # never another Spark on the machine
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return env | ({"SPARK_LOCAL_IP": "127.0.0.1"} if self._is_local else {})

    def _launch(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf(loadDefaults=False)
        conf.setAll(list((self._defaults() | self._conf).items()))
        with (self._scratch / "spark.out").open("wb") as out:
            gateway = launch_gateway(conf, {"stdout": out, "stderr": subprocess.STDOUT})
        self._jvm = gateway.proc
        self._session = SparkSession(SparkContext(conf=conf, gateway=gateway))

    def _defaults(self) -> dict[str, str]:
        log4j = (self._scratch / "log4j2.properties").as_uri()
        conf = {
            "spark.master": self._master,
            "spark.app.name": "trace",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.mode": "FAIR",
            "spark.local.dir": str(self._scratch / "local"),
            "spark.driver.extraJavaOptions": (
                f'"-Dlog4j2.configurationFile={log4j}" "-Djava.io.tmpdir={self._scratch / "tmp"}"'
            ),
            "spark.python.worker.reuse": "true",
            "spark.sql.ansi.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": (self._scratch / "warehouse").as_uri(),
            "spark.sql.catalogImplementation": "in-memory",
            # Few partitions for small work; AQE splits and joins them for large work.
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.parquet.compression.codec": "zstd",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.python.filterPushdown.enabled": "true",
        }
        return conf | (self._local_defaults() if self._is_local else {})

    def _local_defaults(self) -> dict[str, str]:
        self._sockets = _socket_dir(self._scratch)
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Over TCP each answer of a Python worker waits for a delayed acknowledgement: a job
            # of four small tasks takes 0.14 s instead of 0.06 s.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": self._sockets,
        }

    @property
    def _is_local(self) -> bool:
        return self._master.startswith("local")

    def _discard(self) -> None:
        """Forget the session and end its JVM; also after a start that failed half-way."""
        jvm, self._jvm, self._session = self._jvm, None, None
        _reset_pyspark(jvm_alive=jvm is not None and jvm.poll() is None)
        if jvm is not None:
            _end(jvm)
        self._remove_sockets()
        self._sockets = None

    def _remove_sockets(self) -> None:
        if self._sockets is not None:
            # Python workers that are on their way out remove their own sockets meanwhile.
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _last_words(self) -> str:
        """The line of spark.out that names the failure."""
        try:
            lines = (self._scratch / "spark.out").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        telling = [line for line in lines if "rror" in line or "xception" in line]
        return (telling or lines or [""])[0].strip()[:500]


def _reset_pyspark(*, jvm_alive: bool) -> None:
    """pyspark keeps its gateway and sessions in class attributes and never notices a dead JVM:
    without this it would go on talking to the old port."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    with SparkContext._lock:
        context, gateway = SparkContext._active_spark_context, SparkContext._gateway
        if context is not None:
            _stop(context, jvm_alive=jvm_alive)
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None


def _stop(context: SparkContext, *, jvm_alive: bool) -> None:
    if jvm_alive:
        try:
            context.stop()
            return
        except Exception:  # noqa: S110 - it died between the look and the call
            pass
    context._jsc = None  # stop() would call the dead JVM, and warn
    context.stop()


def _end(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin is not None:
        with contextlib.suppress(OSError):
            jvm.stdin.close()  # the gateway ends with its standard input
    try:
        jvm.wait(_JVM_STOP_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _progress(session: SparkSession, tag: str) -> tuple[int, int]:
    tracker = session.sparkContext._jsc.sc().statusTracker()
    done = total = 0
    for job_id in tracker.getJobIdsForTag(tag):
        for stage_id in _stage_ids(tracker.getJobInfo(job_id)):
            stage = tracker.getStageInfo(stage_id)
            if stage.isDefined():
                done += stage.get().numCompletedTasks()
                total += stage.get().numTasks()
    return done, total


def _stage_ids(job: Any) -> list[int]:
    return list(job.get().stageIds()) if job.isDefined() else []


def _socket_dir(scratch: Path) -> str:
    """An empty directory that only this user can enter, with a path short enough for sockets.

    Its name follows from `scratch`, so that a start clears what a killed predecessor left.
    """
    if len(str(scratch)) < _MAX_SOCKET_DIR - len("/sockets"):
        place = scratch / "sockets"
    else:
        name = hashlib.sha256(str(scratch).encode()).hexdigest()[:12]
        place = Path(tempfile.gettempdir(), f"trace-{name}")
    if place.is_dir() and not place.is_symlink() and place.stat().st_uid == os.getuid():
        shutil.rmtree(place)
    place.mkdir(mode=0o700)
    return str(place)


def _import_what_tasks_need(_: int) -> None:
    from trace_platform.operators import cryo_ingest  # noqa: F401
