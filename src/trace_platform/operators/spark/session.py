"""One warm Spark session per worker process, shared by its task threads."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trace_platform.domain.errors import (
    NOTES_VARIABLE,
    SparkUnreachable,
    TaskCanceled,
    TraceError,
    Unavailable,
)
from trace_platform.operators.spark import chain_functions
from trace_platform.operators.spark.authentication import (
    authentication,
    check_secret,
    in_environment,
)
from trace_platform.operators.spark.check_conf import IN_FILES, check_conf
from trace_platform.operators.spark.failures import telling_line
from trace_platform.operators.spark.gateway import end_jvm, reset_pyspark
from trace_platform.operators.spark.java import java_home
from trace_platform.operators.spark.master import (
    address_towards,
    check_master,
    is_local,
    reach_master,
    standalone_addresses,
)
from trace_platform.operators.spark.private_folder import (
    make_private,
    make_socket_folder,
    remove_socket_folder,
)
from trace_platform.operators.spark.progress import read_progress
from trace_platform.operators.spark.session_record import (
    SessionRecord,
    clear_session_record,
    write_session_record,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long a standalone master has to take the application. Spark itself asks for a minute, and on
# a busy machine a context takes a while to get that far.
_REGISTER_S = 120.0

_GROUP = "spark.jobGroup.id"

# What the handshake says of a master with another secret, and of one that asks for none.
_REFUSED_SECRET = re.compile(
    r"Exception while bootstrapping client.*\n.*"
    r"(Authentication failed|EOFException|StreamCorruptedException)"
)

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

    `conf` wins over the defaults here, but for what it may not say. Everything Spark writes is
    under `scratch`, which nobody else can enter: its log (`spark.log`), what the JVM says before it
    can log (`spark.out`), what it is doing (`session.json`), and its temporary files.

    On a cluster this process is the driver, and executors are elsewhere. They end with the driver:
    none outlives the JVM that is here. `secret` is what a standalone cluster's master and workers
    know as well.
    """

    def __init__(
        self,
        scratch: str | Path,
        *,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        secret: str | None = None,
        register_s: float = _REGISTER_S,
    ) -> None:
        self._scratch = Path(scratch).absolute()
        self._master = check_master(master)
        self._register_s = register_s
        self._conf = dict(check_conf(conf or {}, master))
        self._secret = check_secret(master, secret)
        self._starting = threading.Lock()
        # Of tasks that run, by tag: whether they were cancelled.
        self._cancelled: dict[str, bool] = {}
        self._session: SparkSession | None = None
        # Python code that its executors have.
        self._shipped: set[Path] = set()
        # The session that has the functions of chain data.
        self._extended: SparkSession | None = None
        self._jvm: subprocess.Popen[bytes] | None = None
        self._has_sockets = False
        self._log_bytes = 0  # of spark.log, before the last start
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
        session = self.session()
        self._add_functions(session)
        context = session.sparkContext
        n = context.defaultParallelism
        context.parallelize(range(n), n).foreach(_import_what_tasks_need)

    @contextlib.contextmanager
    def task_thread(
        self, tag: str, py_file: Path | None = None
    ) -> Iterator[Callable[[], SparkSession]]:
        """In the task's thread: gives `spark()`, whose jobs from this thread carry the tag, and
        whose executors can import what is in `py_file`.

        Spark starts with the first call of `spark()`, not before: many tasks need none. No job of
        the tag runs any more afterwards, whatever the operator has left running.
        """

        tagged = []

        def spark() -> SparkSession:
            session = self.session()
            self._add_functions(session)
            if py_file is not None:
                self._ship(session, py_file)
            tagged.append(tag)
            session.sparkContext.addJobTag(tag)
            # The group is what can be cancelled before a job of it is submitted.
            session.sparkContext.setLocalProperty(_GROUP, tag)
            if self._cancelled.get(tag):
                raise TaskCanceled("the task was cancelled before it used Spark")
            return session

        self._cancelled[tag] = False
        try:
            yield spark
        finally:
            self._cancelled.pop(tag, None)
            with contextlib.suppress(Exception):  # the JVM may be gone, and its tags with it
                if tagged and self._session is not None:
                    self._session.sparkContext.cancelJobsWithTag(tag)
                    self._session.sparkContext.removeJobTag(tag)
                    self._session.sparkContext.setLocalProperty(_GROUP, None)

    def _ship(self, session: SparkSession, py_file: Path) -> None:
        """Once per session: executors keep it, and those that come later get it too."""
        with self._starting:
            ours = self._session is not None and session is self._session
            if ours and py_file not in self._shipped:
                session.sparkContext.addPyFile(str(py_file))
                self._shipped.add(py_file)

    def _add_functions(self, session: SparkSession) -> None:
        """Once, and not while a session starts: Spark makes its catalog for the first of them."""
        with self._starting:
            if self._extended is not session:
                chain_functions.register(session)
                self._extended = session

    def progress(self, tag: str) -> tuple[int, int]:
        """Spark tasks done and known of the tag's jobs; (0, 0) when there are none."""
        session = self._session
        if session is None:
            return 0, 0
        try:
            return read_progress(session, tag)
        except Exception:
            # Progress is for people; a JVM that is going away is reported by the task itself.
            return 0, 0

    def cancel(self, tag: str) -> None:
        """Stop the tag's jobs, from any thread: those that run, and those that the task's thread
        submits later because it has not noticed yet."""
        if tag in self._cancelled:
            self._cancelled[tag] = True
        session = self._session  # looked at after the mark: `spark()` sees one or the other
        if session is not None:
            with contextlib.suppress(Exception):
                session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(tag)
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
            make_private(self._scratch)
            reach_master(self._master)
            self._prepare()
            self._launch()
        except Exception as error:
            named = error if isinstance(error, TraceError) else self._start_failure(error)
            self._discard()
            self._tell(error=named.message)
            raise named from error
        self._tell()

    def _start_failure(self, error: Exception) -> Unavailable:
        # A JVM that came up answers with what is wrong; one that did not has written it.
        said = self._last_words() if self._jvm is None else ""
        return Unavailable(
            f"Spark did not start: {said or telling_line(str(error))}",
            hint="`trace doctor` checks Java; Spark's own words are in spark.out and spark.log",
        )

    def _not_taken(self) -> SparkUnreachable:
        """A standalone master that accepts connections, and then does not register us."""
        import pyspark

        ours, log = f"this is Spark {pyspark.__version__}", self._log_of_this_start()
        if _REFUSED_SECRET.search(log):
            return SparkUnreachable(
                f"the Spark master {self._master} does not share this instance's secret",
                hint="give its master and workers what is in secrets/spark_secret, or put theirs"
                " there: see docs/spark-cluster.md",
            )
        if "InvalidClassException" in log or "StreamCorruptedException" in log:
            said = f"the Spark master {self._master} runs another version of Spark: {ours}"
            return SparkUnreachable(said, hint=f"run Spark {pyspark.__version__} on the cluster")
        return SparkUnreachable(
            f"the Spark master {self._master} did not take the application; {ours}",
            hint="is it a Spark master of that version? Spark's own words are in spark.log",
        )

    def _log_of_this_start(self) -> str:
        """What another start has met is no reason for this one."""
        try:
            whole = (self._scratch / "spark.log").read_bytes()
        except OSError:
            return ""
        return whole[self._log_bytes if self._log_bytes <= len(whole) else 0 :].decode(
            errors="replace"
        )

    def _tell(self, error: str | None = None) -> None:
        with contextlib.suppress(OSError):  # it is for people who look
            application = None
            if error is None and self._session is not None:
                application = self._session.sparkContext.applicationId
            told = SessionRecord(self._master, self.jvm_pid, application, error)
            write_session_record(self._scratch, told)

    def _prepare(self) -> None:
        for name in ("local", "warehouse", "tmp"):
            make_private(self._scratch / name)
        log = self._scratch / "spark.log"
        self._log_bytes = log.stat().st_size if log.exists() else 0
        (self._scratch / "log4j2.properties").write_text(_LOG4J.format(log=log))
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
            # Of the executors: on a cluster it may be elsewhere. Spark reads it from here alone.
            "PYSPARK_PYTHON": self._conf.get("spark.pyspark.python", sys.executable),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        return env | ({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(self._master) else {})

    def _launch(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf(loadDefaults=False)
        conf.setAll(list((self._defaults() | self._conf).items()))
        with (self._scratch / "spark.out").open("wb") as out, in_environment(self._secret):
            gateway = launch_gateway(conf, {"stdout": out, "stderr": subprocess.STDOUT})
        self._jvm = gateway.proc
        with self._limited_registration(gateway.proc):
            self._session = SparkSession(SparkContext(conf=conf, gateway=gateway))

    @contextlib.contextmanager
    def _limited_registration(self, jvm: subprocess.Popen[bytes]) -> Iterator[None]:
        """Spark waits for a standalone master in a call that nothing but the JVM's end ends."""
        if not standalone_addresses(self._master):
            yield
            return
        late = threading.Event()

        def give_up() -> None:
            late.set()
            jvm.kill()

        timer = threading.Timer(self._register_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if late.is_set() or "stopped SparkContext" in str(error):
                raise self._not_taken() from error
            raise
        finally:
            timer.cancel()

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
            # Also of Python workers on this machine: an error that is raised there reaches the
            # driver as the text of its traceback, in which it has to be told whole.
            f"spark.executorEnv.{NOTES_VARIABLE}": "1",
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
        conf |= IN_FILES | authentication(self._secret)
        return conf | (self._local_defaults() if is_local(self._master) else self._far_defaults())

    def _local_defaults(self) -> dict[str, str]:
        sockets = make_socket_folder(self._scratch)
        self._has_sockets = True
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Over TCP each answer of a Python worker waits for a delayed acknowledgement: a job
            # of four small tasks takes 0.14 s instead of 0.06 s.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": str(sockets),
        }

    def _far_defaults(self) -> dict[str, str]:
        conf = {
            # A task that does not end when it is told to takes its executor along: what was
            # cancelled, or timed out, writes nothing more.
            "spark.task.reaper.enabled": "true",
            "spark.task.reaper.killTimeout": "60s",
        }
        address = address_towards(self._master)
        return conf | ({"spark.driver.host": address} if address else {})

    def _discard(self) -> None:
        """Forget the session and end its JVM; also after a start that failed half-way."""
        jvm, self._jvm, self._session, self._extended = self._jvm, None, None, None
        self._shipped.clear()
        clear_session_record(self._scratch)
        reset_pyspark(jvm_alive=jvm is not None and jvm.poll() is None)
        if jvm is not None:
            end_jvm(jvm)
        self._remove_sockets()
        self._has_sockets = False

    def _remove_sockets(self) -> None:
        if self._has_sockets:
            remove_socket_folder(self._scratch)

    def _last_words(self) -> str:
        """The line of spark.out that names the failure."""
        try:
            lines = (self._scratch / "spark.out").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        telling = [line for line in lines if "rror" in line or "xception" in line]
        return (telling or lines or [""])[0].strip()[:500]


def _import_what_tasks_need(_: int) -> None:
    pass
