"""Settings of an instance: `config.toml`, then TRACE_* variables, over the defaults.

Environment names: TRACE_STATE_DSN, TRACE_DATA_DSN, TRACE_SPARK_MASTER, and
TRACE_RPC_<POOL> for the URL of an RPC pool. TRACE_POOL_NAMES names the pools to processes that do
not get their URLs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trace_platform.app.instance.home import Home
from trace_platform.dag.model.dag import Count, Name
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.event_target import check_target
from trace_platform.domain.private_url import is_private
from trace_platform.domain.runtimes import (
    DEFAULT_RUNTIMES,
    Kind,
    Runtime,
    Runtimes,
    starting_point,
)
from trace_platform.operators.spark.check_conf import check_conf
from trace_platform.operators.spark.master import check_master

# The processes that listen.
WITH_PORT = ("postgres", "dispatcher", "query", "rpc", "devchain", "gateway")
# Where nobody but this machine's own users listens in.
LOOPBACK = ("127.0.0.1", "::1")
POOL_NAMES = "TRACE_POOL_NAMES"
T = TypeVar("T")
# Of a setting: the section and the name.
Place = tuple[int | str, ...]
# Strict: `true` is no port.
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]

_QUEUE = "a queue is at most 80 letters, digits, '_', '.' and '-'"
_URL = "the address of a function starts with http:// or https://"
_NODE_URL = "the URL of a node starts with http:// or https://"
_HOST = "a host is a name in lower-case letters, digits, '.' and '-', without scheme and port"
_POOL = "a name is at most 60 letters, digits, '_', '.' and '-'"


def _like(pattern: str, said: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(said)
        return text

    return AfterValidator(check)


def _checked_by(check: Callable[[T], T]) -> AfterValidator:
    def validate(value: T) -> T:
        try:
            return check(value)
        except InvalidConfig as error:
            raise ValueError(f"{error.message}; {error.hint}") from None

    return AfterValidator(validate)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PostgresSettings(_Section):
    """Both DSNs, or neither: without them the instance runs its own Postgres."""

    state_dsn: str | None = None
    data_dsn: str | None = None


class WorkerSettings(_Section):
    slots: int = Field(default=2, ge=1, le=1_000)
    # For runs of sources, besides: they have no end, and mostly wait for a node.
    source_slots: int = Field(default=8, ge=0, le=1_000)
    # Start the JVM with the worker instead of with its first Spark task.
    prewarm: bool = True
    # Whose queue it polls.
    runtime: Name = "ecs_platform"


class OperatorSettings(_Section):
    # Whether jobs may name code that lies beside their DAG file: it runs in workers as ours does.
    beside_dags: bool = Field(default=True, strict=True)


class SparkSettings(_Section):
    master: Annotated[str, _checked_by(check_master)] = "local[*]"
    # Spark's own settings, over those that Trace makes.
    conf: dict[str, str] = {}

    @model_validator(mode="after")
    def _keeps_ports_closed(self) -> SparkSettings:
        try:
            check_conf(self.conf, self.master)
        except InvalidConfig as error:
            raise ValueError(f"conf: {error.message}; {error.hint}") from None
        return self


class DispatcherSettings(_Section):
    loop_interval_s: float = Field(default=0.5, gt=0)
    retry_base_s: float = Field(default=2.0, gt=0)
    # How often the lengths of the queues are held against their limits.
    pressure_interval_s: float = Field(default=0.5, gt=0)
    metrics_interval_s: float = Field(default=5.0, gt=0)
    # How long workers have to speak after a start or an outage before leases count as lost.
    reap_grace_s: float = Field(default=15.0, ge=0)
    # How long finished tasks and handled events are kept.
    history_days: float = Field(default=90.0, gt=0)
    # How long alerts are kept that do not stand any more, dead letters, and messages nobody takes.
    alert_days: float = Field(default=90.0, gt=0)
    message_days: float = Field(default=14.0, gt=0)
    # How long files stay that gave way to newer ones of their generation: so many days, and of one
    # partition the newest so many.
    superseded_days: float = Field(default=30.0, ge=0)
    superseded_versions: int = Field(default=100, ge=0)


class LineageSettings(_Section):
    # Where runs are told as OpenLineage events: "file:/PATH", or a URL. None: nowhere.
    openlineage: Annotated[str, _checked_by(check_target)] | None = Field(default=None, repr=False)
    # The secret whose value opens that URL, sent as a bearer token.
    secret: Name | None = None
    # Of jobs and datasets in these events: one for each instance that tells the same collector.
    namespace: str = Field(default="trace", min_length=1, max_length=256)

    @model_validator(mode="after")
    def _sends_no_secret_in_the_open(self) -> LineageSettings:
        target = self.openlineage or "file:"
        if self.secret and not target.startswith("file:") and not is_private(target):
            raise ValueError(
                "openlineage is an http:// address of another machine, where others can read"
                " the secret along: write https://"
            )
        return self


class LogSettings(_Section):
    # How long lines stay, and how many bytes of one process at most.
    keep_days: float = Field(default=30.0, gt=0)
    max_mb: float = Field(default=80.0, ge=1)


class QuerySettings(_Section):
    # Queries at once, each in a process of its own, and how many more may wait.
    concurrency: int = Field(default=3, ge=1, le=256)
    max_waiting: int = Field(default=16, ge=0, le=10_000)
    # Running or waiting, of one user.
    per_user: int = Field(default=8, ge=1, le=10_000)
    # Of one query.
    memory_mb: int = Field(default=1024, ge=128, le=1 << 20)
    spill_mb: int = Field(default=2048, ge=0, le=1 << 22)
    threads: int = Field(default=2, ge=1, le=256)
    timeout_seconds: float = Field(default=60.0, ge=1, le=3_600)
    task_timeout_seconds: float = Field(default=300.0, ge=1, le=86_400)
    # Rows at the tip that one query may bring from Postgres.
    hot_mb: int = Field(default=512, ge=16, le=1 << 18)


class GatewaySettings(_Section):
    # Where it listens. Anywhere but on this machine's loopback it needs a certificate.
    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    # PEM files; without them plain HTTP.
    certificate: Path | None = None
    key: Path | None = None
    # Names by which it is called, besides those of this machine: each as in the address.
    hosts: tuple[Annotated[str, _like(r"[a-z0-9.-]{1,253}", _HOST)], ...] = ()
    session_hours: float = Field(default=12.0, gt=0, le=24 * 30)
    # Of one caller.
    requests_per_second: float = Field(default=100.0, ge=1, le=100_000)
    # Another build of the console than the one that is installed.
    console: Path | None = None

    @model_validator(mode="after")
    def _says_nothing_in_the_open(self) -> GatewaySettings:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key come together")
        if self.certificate is None and self.host not in LOOPBACK:
            raise ValueError(
                f"host {self.host} is open to others, and needs certificate and key;"
                f" without them it is one of {', '.join(LOOPBACK)}"
            )
        return self


class RuntimeSettings(_Section):
    """What `[runtimes.NAME]` says; the rest is as in `starting_point`."""

    kind: Kind | None = None
    queue: Annotated[str, _like(r"[A-Za-z0-9_.-]{1,80}", _QUEUE)] | None = None
    enabled: bool | None = Field(default=None, strict=True)
    capabilities: frozenset[Name] | None = None
    trusted_operators: frozenset[Name] | None = None
    max_concurrency: Count | None = None
    timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    max_timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    heartbeat_timeout_seconds: float | None = Field(default=None, ge=1, le=3_600)
    # Of kind lambda: what the Dispatcher calls. It may hold a key.
    url: Annotated[str, _like(r"https?://\S+", _URL)] | None = Field(default=None, repr=False)

    def runtime(self, name: str) -> Runtime:
        """Raise InvalidConfig for a kind that the name cannot have."""
        made = replace(starting_point(name, self.kind), **self.model_dump(exclude_none=True))
        if self.timeout_seconds is not None:
            return made
        return replace(made, timeout_seconds=min(made.timeout_seconds, made.max_timeout_seconds))


PoolName = Annotated[str, _like(r"[A-Za-z0-9_.-]{1,60}", _POOL)]
NodeUrl = Annotated[str, _like(r"https?://\S+", _NODE_URL)]


class RpcProviderSettings(_Section):
    """A node of a pool. Its URL may hold a key; better it holds `{key}`, and `key_secret` names the
    value (`trace secrets set`)."""

    name: PoolName
    url: NodeUrl = Field(repr=False)
    key_secret: Name | None = None
    requests_per_second: float | None = Field(default=None, gt=0, le=1_000_000)
    max_concurrency: int = Field(default=32, ge=1, le=10_000)
    # Calls in one request; larger batches are split.
    max_batch: int | None = Field(default=None, ge=1, le=10_000)
    # Those with the lowest number are asked first, the others when these cannot answer.
    priority: int = Field(default=1, ge=0, le=1_000)


class RpcPoolSettings(_Section):
    """Nodes of one chain. A URL alone is a pool of one."""

    providers: tuple[RpcProviderSettings, ...] = Field(min_length=1, max_length=100)
    # Who serves another chain is not asked.
    chain_id: int | None = Field(default=None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: Any) -> Any:
        return {"providers": [{"name": "node", "url": given}]} if isinstance(given, str) else given

    @field_validator("providers")
    @classmethod
    def _distinct(cls, given: tuple[RpcProviderSettings, ...]) -> tuple[RpcProviderSettings, ...]:
        for name, count in Counter(each.name for each in given).items():
            if count > 1:
                raise ValueError(f"{count} providers are called {name}")
        return given


class Settings(_Section):
    bucket: str = "trace-data"
    # What is only kept while it is under way.
    scratch_bucket: str = "trace-scratch"
    # Results of queries as files, each for a day.
    export_bucket: str = "trace-exports"
    # Fixed ports by process name; a process without one gets a free port on the first start.
    ports: dict[str, Port] = {}
    postgres: PostgresSettings = PostgresSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()
    worker: WorkerSettings = WorkerSettings()
    operators: OperatorSettings = OperatorSettings()
    lineage: LineageSettings = LineageSettings()
    query: QuerySettings = QuerySettings()
    gateway: GatewaySettings = GatewaySettings()
    logs: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    rpc_pools: dict[PoolName, RpcPoolSettings] = Field(default={}, repr=False)
    # Known by name alone: only the rpc process is told their URLs.
    pool_names: frozenset[str] = frozenset()
    runtimes: dict[Name, RuntimeSettings] = {}

    @field_validator("ports")
    @classmethod
    def _known_and_distinct(cls, ports: dict[str, int]) -> dict[str, int]:
        unknown = [name for name in ports if name not in WITH_PORT]
        if unknown:
            known = ", ".join(WITH_PORT)
            raise ValueError(f"no process with a port is called {', '.join(unknown)}: {known}")
        for port, count in Counter(ports.values()).items():
            if count > 1:
                shared = " and ".join(name for name in ports if ports[name] == port)
                raise ValueError(f"{shared} cannot share port {port}")
        return ports

    @property
    def known_pools(self) -> frozenset[str]:
        return self.pool_names | self.rpc_pools.keys()

    @model_validator(mode="after")
    def _runtimes_fit(self) -> Settings:
        found = list(self._runtime_problems())
        if found:
            raise ValidationError.from_exception_data("runtimes", found)
        return self

    def runtime_registry(self) -> Runtimes:
        """Those that come with Trace, and those of this instance."""
        ours = {runtime.name: runtime for runtime in DEFAULT_RUNTIMES}
        given = {name: section.runtime(name) for name, section in self.runtimes.items()}
        return Runtimes((ours | given).values())

    def _runtime_problems(self) -> Iterator[InitErrorDetails]:
        found = False
        for name, section in self.runtimes.items():
            for field, said in _problems_of(name, section):
                found = True
                yield _problem(said, "runtimes", name, field)
        if found:
            return
        try:
            runtimes = self.runtime_registry()
        except InvalidConfig as error:
            yield _problem(error.message, "runtimes")
        else:
            yield from self._worker_problems(runtimes)

    def _worker_problems(self, runtimes: Runtimes) -> Iterator[InitErrorDetails]:
        try:
            runtime = runtimes.get(self.worker.runtime)
        except InvalidConfig as error:
            yield _problem(f"{error.message}; {error.hint}", "worker", "runtime")
            return
        if runtime.queue is None:
            said = f"{runtime.name} is of kind {runtime.kind}, and a worker needs a queue"
            yield _problem(said, "worker", "runtime")


def _problems_of(name: str, section: RuntimeSettings) -> list[tuple[str, str]]:
    try:
        return list(section.runtime(name).problems())
    except InvalidConfig as error:
        return [("kind", f"{error.message}; {error.hint}")]


def _problem(said: str, *place: str) -> InitErrorDetails:
    kind = PydanticCustomError("settings", "{said}", {"said": said})
    return InitErrorDetails(type=kind, loc=place, input=None)


def load_settings(home: Home, environ: dict[str, str] | None = None) -> Settings:
    """Raise InvalidConfig, naming every wrong field, when the file or a variable is not right."""
    raw = _read_file(home)
    variables = _overlay(raw, dict(os.environ) if environ is None else environ)
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        raise InvalidConfig(_spell_all(error, home, variables)) from None
    if (settings.postgres.state_dsn is None) != (settings.postgres.data_dsn is None):
        raise InvalidConfig(
            "an external Postgres needs both postgres.state_dsn and postgres.data_dsn",
            hint="give both, or none to use the embedded one",
        )
    return settings


def _spell_all(error: ValidationError, home: Home, variables: dict[Place, str]) -> str:
    """What is wrong with the file, and with each variable that stands for a part of it."""
    in_file, in_variables = [], []
    for each in error.errors():
        variable = variables.get(each["loc"][:2])
        if variable:
            in_variables.append(f"{variable}: {_reason(each)}")
        else:
            where = ".".join(str(step) for step in each["loc"] if step != "[key]")
            in_file.append(f"{where}: {_reason(each)}")
    file = [f"{home.config_file}: {'; '.join(in_file)}"] if in_file else []
    return "; ".join([*file, *in_variables])


def _reason(error: Any) -> str:
    if error["loc"][-1:] == ("[key]",) and error["type"] != "value_error":
        return "a name is lower-case letters, digits and '_', starting with a letter"
    if error["type"] == "extra_forbidden":
        *section, name = error["loc"]
        return f"there is no such setting; {instead(str(name), _settings_of(section), most=20)}"
    if error["type"] == "too_short":
        return f"it needs at least {error['ctx']['min_length']}"
    if error["type"] == "missing":
        return "is missing"
    return str(error["msg"]).removeprefix("Value error, ")


def _settings_of(section: Sequence[int | str]) -> list[str]:
    """The names in the section at that place."""
    found: Any = Settings
    for step in section:
        fields = getattr(found, "model_fields", {})
        annotation = fields[step].annotation if step in fields else found
        found = next(iter(_sections_in(annotation)), found)
    return [name for name in found.model_fields if name != "pool_names"]


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)


def _read_file(home: Home) -> dict[str, Any]:
    try:
        return tomllib.loads(home.config_file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{home.config_file}: {error}") from None


def _overlay(raw: dict[str, Any], environ: dict[str, str]) -> dict[Place, str]:
    """Which variable stands for which setting."""
    given: dict[Place, str] = {}
    for name, section, key in (
        ("TRACE_STATE_DSN", "postgres", "state_dsn"),
        ("TRACE_DATA_DSN", "postgres", "data_dsn"),
        ("TRACE_SPARK_MASTER", "spark", "master"),
    ):
        if name in environ:
            raw.setdefault(section, {})[key] = environ[name]
            given[section, key] = name
    for name, value in environ.items():
        if name.startswith("TRACE_RPC_"):
            pool = name.removeprefix("TRACE_RPC_").lower()
            raw.setdefault("rpc_pools", {})[pool] = value
            given["rpc_pools", pool] = name
    raw["pool_names"] = [name for name in environ.get(POOL_NAMES, "").split(",") if name]
    return given
