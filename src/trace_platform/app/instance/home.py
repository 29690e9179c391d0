"""The one directory that holds everything of an instance."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from trace_platform.app.instance.home_owner import refuse_strangers
from trace_platform.drivers.secret_file import SecretFile

# The names of all that may be there.
CONTENT = (
    "config.toml",
    "demo.json",
    "instance.json",
    "logs",
    "objects",
    "postgres",
    "postgres.lock",
    "query",
    "run",
    "secrets",
    "spark",
    "sql_history",
    "tls",
    "workers",
)


@dataclass(frozen=True, slots=True)
class Home:
    """
    config.toml    what its owner wrote (optional)
    instance.json  ports chosen on the first start
    demo.json      how far `trace demo` got
    secrets/       one file per secret, readable by the owner alone; named/ has those of DAG files,
                   users/ the tokens of those who may only query
    tls/           the instance's CA and certificates
    postgres/      the embedded database
    objects/       the object store: one folder per bucket
    logs/          one JSON-lines file per process
    run/           process records and ready marks, emptied on a clean stop
    spark/         Spark's scratch space
    query/         rows of running queries
    workers/       who the workers are, over their restarts
    sql_history    what was typed into `trace sql`

    All of it is for its owner alone (close_home.py).
    """

    root: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str] | None = None) -> Home:
        """`--home`, else TRACE_HOME, else `.trace` below the current directory.

        Raise SetupError when somebody else made it, or put something into it.
        """
        root = Path(path or os.environ.get("TRACE_HOME") or ".trace").absolute()
        refuse_strangers(root, CONTENT)
        return cls(root)

    def folder(self, name: str) -> Path:
        """Its owner's alone, like the home itself; `close_home` lets in who has to come in."""
        path = self.root / name
        if not path.is_dir():
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.mkdir(exist_ok=True, mode=0o700)
        return path

    @property
    def config_file(self) -> Path:
        return self.root / "config.toml"

    @property
    def instance_file(self) -> Path:
        return self.root / "instance.json"

    @property
    def demo_file(self) -> Path:
        return self.root / "demo.json"

    @property
    def secrets(self) -> Path:
        return self.folder("secrets")

    @property
    def tls(self) -> Path:
        return self.folder("tls")

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def objects(self) -> Path:
        return self.folder("objects")

    @property
    def logs(self) -> Path:
        return self.folder("logs")

    @property
    def run(self) -> Path:
        return self.folder("run")

    @property
    def spark(self) -> Path:
        return self.folder("spark")

    @property
    def query(self) -> Path:
        return self.folder("query")

    @property
    def workers(self) -> Path:
        return self.folder("workers")

    def secret_file(self, name: str) -> SecretFile:
        """Where the secret of that name is, made on first use."""
        self.secret(name)
        return SecretFile(str(self.secrets / name))

    def secret(self, name: str) -> str:
        """The secret of that name, made on first use. Two starters agree on one value."""
        path = self.secrets / name
        if not path.exists():
            partial = path.with_name(f".{name}.{os.getpid()}")
            partial.unlink(missing_ok=True)  # of a starter that was killed
            # New, so that no link leads it elsewhere.
            partial.touch(mode=0o600, exist_ok=False)
            partial.write_text(secrets.token_urlsafe(32))
            try:
                os.link(partial, path)  # fails when another starter was first
            except FileExistsError:
                pass
            finally:
                partial.unlink()
        return path.read_text().strip()
