"""Spark's ports open to those who know a secret, and to nobody else.

Where Spark starts the executors itself (`local[*]`, Kubernetes, YARN) it makes a new secret for
each application. A standalone cluster runs before we do: its master and workers share one with us.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.spark.master import makes_own_secret

AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # The older handshake authenticates, and encrypts nothing.
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
    # Spark's default encrypts, and does not notice what was changed on the way.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
SECRET = "spark.authenticate.secret"  # noqa: S105, the name of a setting
_VARIABLE = "_SPARK_AUTH_SECRET"


def check_secret(master: str, secret: str | None) -> str | None:
    """The secret that the JVM has to be given, if any; raise InvalidConfig when it is missing."""
    if makes_own_secret(master):
        return None
    if not secret:
        raise InvalidConfig(f"{master} needs the secret that its master and workers have")
    return secret


def authentication(secret: str | None) -> dict[str, str]:
    """Settings of the application. None of them is the secret: that is in the environment, which
    Spark looks at first; but it wants the setting to be there."""
    return AUTHENTICATED | ({SECRET: f"see {_VARIABLE}"} if secret else {})


@contextmanager
def in_environment(secret: str | None) -> Iterator[None]:
    """While the JVM is started: it inherits the secret, and others can see its command line."""
    if secret is None:
        yield
        return
    os.environ[_VARIABLE] = secret
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
