"""Where Spark runs: what a master's address says, and whether somebody answers there."""

from __future__ import annotations

import re
import socket

from trace_platform.domain.errors import InvalidConfig, SparkUnreachable

# How long a master has to accept a connection.
REACH_S = 5.0

_STANDALONE = re.compile(r"spark://([^\s/,]+:\d+(?:,[^\s/,]+:\d+)*)")
_OTHERS = re.compile(r"local(-cluster)?(\[[\d*,]+\])?|yarn|k8s://\S+")
_RIGHT = "local[*], spark://host:7077, k8s://https://host:443 or yarn"


def check_master(master: str) -> str:
    """The master itself, when it is written as one; else raise InvalidConfig."""
    if not (_STANDALONE.fullmatch(master) or _OTHERS.fullmatch(master)):
        raise InvalidConfig(f"{master!r} is no Spark master", hint=f"write {_RIGHT}")
    return master


def is_local(master: str) -> bool:
    """Whether the JVM of the worker does all the work itself."""
    return re.match(r"local(\[|$)", master) is not None


def makes_own_secret(master: str) -> bool:
    """Whether Spark brings the secret of its ports to the executors by itself."""
    return not master.startswith(("spark://", "local-cluster"))


def standalone_addresses(master: str) -> list[tuple[str, int]]:
    """Host and port of each master of a standalone cluster; none of anything else."""
    match = _STANDALONE.fullmatch(master)
    each = match[1].split(",") if match else []
    return [(host.strip("[]"), int(port)) for host, _, port in (a.rpartition(":") for a in each)]


def reach_master(master: str, timeout_s: float = REACH_S) -> None:
    """Raise SparkUnreachable unless one of the masters of a standalone cluster accepts
    connections. Of others nothing is known before Spark starts."""
    refusals = []
    for address in standalone_addresses(master):
        try:
            socket.create_connection(address, timeout_s).close()
            return
        except OSError as error:
            refusals.append(error.strerror or str(error))
    if refusals:
        raise SparkUnreachable(
            f"the Spark master {master} cannot be reached: {refusals[-1]}",
            hint="is it running, and is that its address? `trace doctor` looks again",
        )


def address_towards(master: str) -> str | None:
    """This machine's address as executors beside the master can reach it; None: Spark's guess.

    That guess is the host name's, which on many machines is an address that nobody else has.
    """
    for host, port in standalone_addresses(master):
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(address)  # asks the routing table; nothing is sent
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None
