"""Settings of Spark that are not for users to choose."""

from __future__ import annotations

from collections.abc import Mapping

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.spark.authentication import AUTHENTICATED, SECRET
from trace_platform.operators.spark.master import is_local

# How moments and dates are in files. With others, what reads them finds other ones: INT96 has no
# zone and is nanoseconds to Arrow, which end in 2262, and before 1582 another calendar is possible.
IN_FILES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
# A page for anybody, and a folder that others could enter.
_OPEN_TO_ALL = ("spark.ui.enabled", "spark.python.unix.domain.socket.dir")
# Where executors are elsewhere they have to come in.
_REACHED = ("spark.driver.host", "spark.driver.bindAddress")


def check_conf(conf: Mapping[str, str], master: str) -> Mapping[str, str]:
    """The settings themselves; raise InvalidConfig when one would open Spark's ports, or would show
    their secret (settings are part of the JVM's command line), or would change what files mean."""
    closed = (*_OPEN_TO_ALL, *(_REACHED if is_local(master) else ()))
    for name in conf:
        if name in (*AUTHENTICATED, SECRET):
            raise InvalidConfig(
                f"{name} is not yours to set: Spark's ports are always authenticated",
                hint="the secret of a cluster belongs into secrets/spark_secret",
            )
        if name in IN_FILES:
            raise InvalidConfig(
                f"{name} is not yours to set: all files hold dates and moments in the same way",
                hint="leave it out",
            )
        if name in closed:
            raise InvalidConfig(
                f"{name} is not yours to set: nobody else on this machine gets to Spark",
                hint=f"leave it out of [spark.conf]; with the master {master} it cannot be changed",
            )
    return conf
