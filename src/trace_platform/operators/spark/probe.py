"""Ask a cluster's executors whether they have what operators need there."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from trace_platform.domain.errors import SetupError, TaskCanceled, Unavailable
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.spark.failures import readable_failures
from trace_platform.operators.spark.session import SparkRuntime

# How long a cluster may take to give an executor.
PATIENCE_S = 60.0
_TAG = "trace-probe"


@dataclass(frozen=True, slots=True)
class Node:
    """What a task of Spark finds where it runs."""

    host: str
    python: str
    package: str
    has_store: bool
    # Of the secrets that tasks read, those that they cannot read here.
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """What tasks have to find on every node."""

    store: Path
    secrets: tuple[SecretFile, ...] = ()


def probe_cluster(
    master: str,
    conf: Mapping[str, str],
    scratch: Path,
    needs: Needs,
    secret: str | None,
    patience_s: float = PATIENCE_S,
) -> list[Node]:
    """Start an application of its own, ask each core once, end it. Raise what is in the way."""
    runtime = SparkRuntime(scratch, master=master, conf=conf, secret=secret)
    try:
        with runtime.task_thread(_TAG) as spark:
            context = spark().sparkContext
            timer = threading.Timer(patience_s, runtime.cancel, [_TAG])
            timer.start()
            try:
                with readable_failures(lambda: None):
                    cores = context.defaultParallelism
                    asked = context.parallelize([needs] * cores, cores)
                    nodes: list[Node] = asked.map(_look).collect()
                    return nodes
            finally:
                timer.cancel()
    except TaskCanceled:
        raise Unavailable(
            f"{master} gave no executor within {patience_s:g} s",
            hint="has it free cores, and as much free memory as spark.executor.memory says (1g)?",
        ) from None
    except Unavailable as error:
        if "No module named 'trace_platform'" not in error.message:
            raise
        ours = f"trace-platform=={version('trace-platform')}"
        said = "the executors' Python does not have trace_platform"
        raise SetupError(said, hint=f"install {ours} there, or set spark.pyspark.python") from None
    finally:
        runtime.stop()


def _look(needs: Needs) -> Node:
    return Node(
        host=platform.node(),
        python=platform.python_version(),
        package=version("trace-platform"),
        has_store=needs.store.is_dir() and os.access(needs.store, os.W_OK),
        lacks=tuple(each.path for each in needs.secrets if not os.access(each.path, os.R_OK)),
    )
