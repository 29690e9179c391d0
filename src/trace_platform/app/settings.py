"""Settings of an instance: `config.toml`, then TRACE_* variables, over the defaults.

Environment names: TRACE_STATE_DSN, TRACE_DATA_DSN, TRACE_SPARK_MASTER, and
TRACE_RPC_<POOL> for the URL of an RPC pool.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trace_platform.app.home import Home
from trace_platform.domain.errors import InvalidConfig

# The processes that listen.
WITH_PORT = ("postgres", "dispatcher", "query", "devchain")
# Strict: `true` is no port.
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostgresSettings(_Section):
    """Both DSNs, or neither: without them the instance runs its own Postgres."""

    state_dsn: str | None = None
    data_dsn: str | None = None


class WorkerSettings(_Section):
    slots: int = Field(default=2, ge=1, le=64)
    # Start the JVM with the worker instead of with its first Spark task.
    prewarm: bool = True


class SparkSettings(_Section):
    master: str = "local[*]"
    conf: dict[str, str] = {}


class DispatcherSettings(_Section):
    loop_interval_s: float = Field(default=0.5, gt=0)
    retry_base_s: float = Field(default=2.0, gt=0)


class Settings(_Section):
    bucket: str = "trace-data"
    # Fixed ports by process name; a process without one gets a free port on the first start.
    ports: dict[str, Port] = {}
    postgres: PostgresSettings = PostgresSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()
    worker: WorkerSettings = WorkerSettings()
    spark: SparkSettings = SparkSettings()
    rpc_pools: dict[str, str] = {}

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


def load_settings(home: Home, environ: dict[str, str] | None = None) -> Settings:
    """Raise InvalidConfig, naming every wrong field, when the file or a variable is not right."""
    raw = _read_file(home)
    _overlay(raw, dict(os.environ) if environ is None else environ)
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        found = "; ".join(_spell(each) for each in error.errors())
        raise InvalidConfig(f"{home.config_file}: {found}") from None
    if (settings.postgres.state_dsn is None) != (settings.postgres.data_dsn is None):
        raise InvalidConfig(
            "an external Postgres needs both postgres.state_dsn and postgres.data_dsn",
            hint="give both, or none to use the embedded one",
        )
    return settings


def _spell(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def _read_file(home: Home) -> dict[str, Any]:
    try:
        return tomllib.loads(home.config_file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfig(f"{home.config_file}: {error}") from None


def _overlay(raw: dict[str, Any], environ: dict[str, str]) -> None:
    for name, section, key in (
        ("TRACE_STATE_DSN", "postgres", "state_dsn"),
        ("TRACE_DATA_DSN", "postgres", "data_dsn"),
        ("TRACE_SPARK_MASTER", "spark", "master"),
    ):
        if name in environ:
            raw.setdefault(section, {})[key] = environ[name]
    for name, value in environ.items():
        if name.startswith("TRACE_RPC_"):
            pool = name.removeprefix("TRACE_RPC_").lower()
            raw.setdefault("rpc_pools", {})[pool] = value
