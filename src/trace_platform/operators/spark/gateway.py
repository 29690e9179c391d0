"""End a JVM of Spark, and have pyspark forget it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_JVM_STOP_S = 20.0


def reset_pyspark(*, jvm_alive: bool) -> None:
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


def end_jvm(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin is not None:
        with contextlib.suppress(OSError):
            jvm.stdin.close()  # the gateway ends with its standard input
    try:
        jvm.wait(_JVM_STOP_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
