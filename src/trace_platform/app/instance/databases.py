"""Roles and databases, and the connection string of each role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.limit_roles import (
    close_functions,
    limit_connections,
    reset_settings,
)
from trace_platform.app.instance.open_instance import HOST, Instance
from trace_platform.app.instance.settings import Settings
from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.embedded_postgres import ADMIN
from trace_platform.drivers.postgres.migrations import migrate

_OLDEST = 15
# Two starters prepare one after the other.
_LOCK = 7_726_163_100


@dataclass(frozen=True, slots=True)
class Database:
    name: str
    owner: str
    users: tuple[str, ...]
    package: str
    setting: str

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.owner, *self.users)

    @property
    def migrations(self) -> Path:
        return Path(str(files(self.package))) / "migrations"


STATE = Database(
    name="trace_state",
    owner="trace_owner",
    users=("trace_dispatcher", "trace_queue"),
    package="trace_platform.state",
    setting="state_dsn",
)
DATA = Database(
    name="trace_data",
    owner="trace_data_owner",
    users=("trace_data_writer", "trace_data_janitor", "trace_query"),
    package="trace_platform.data",
    setting="data_dsn",
)
READ_ONLY = "trace_query"


def dsn(home: Home, settings: Settings, instance: Instance, role: str) -> str:
    """The connection string of a role, password included: never log it."""
    login = _login(settings, instance, role)
    return make_conninfo(login, password=home.secret(_secret_name(role)))


def data_database(home: Home, settings: Settings, instance: Instance, role: str) -> DataDatabase:
    """Postgres data as a role reaches it. Its password stays in its file."""
    login = _login(settings, instance, role)
    return DataDatabase(login, password=home.secret_file(_secret_name(role)))


def addresses(settings: Settings) -> dict[str, str]:
    """Where external databases are, for processes that log in as their own role: the DSNs that
    were given hold an administrator's password, which no process needs once all is prepared."""
    return {
        f"TRACE_{database.setting.upper()}": _without_login(external, database)
        for database in (STATE, DATA)
        if (external := _external(settings, database))
    }


def admin_dsn(home: Home, instance: Instance, database: str = "postgres") -> str:
    """The superuser of the embedded server. Only preparation uses it."""
    return make_conninfo(_embedded(instance, database, ADMIN), password=admin_password(home))


def admin_password(home: Home) -> str:
    return home.secret(_secret_name(ADMIN))


def prepare(home: Home, settings: Settings, instance: Instance) -> list[str]:
    """Roles, databases, privileges, migrations. Returns the migrations that were applied."""
    _refuse_shared_database(settings)
    applied: list[str] = []
    for database in (STATE, DATA):
        external = _external(settings, database)
        admin = external or admin_dsn(home, instance)
        with _connected(admin, database) as connection:
            _check_version(connection)
            connection.execute("SET lock_timeout = '120s'")
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            _make_roles(connection, home, database)
            if external:
                allow_roles(connection, database, connection.info.dbname)
            else:
                _make_database(connection, database)
                with _connected(admin_dsn(home, instance, database.name), database) as inside:
                    allow_roles(inside, database, database.name)
            owner = dsn(home, settings, instance, database.owner)
            applied += migrate(owner, database.migrations)
    return applied


def allow_roles(connection: psycopg.Connection, database: Database, name: str) -> None:
    """Only the roles of this database may enter it; only its owner may create in it."""
    where, owner = sql.Identifier(name), sql.Identifier(database.owner)
    users = sql.SQL(", ").join(map(sql.Identifier, database.roles))
    for statement in (
        "REVOKE ALL ON DATABASE {where} FROM PUBLIC",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "GRANT USAGE ON SCHEMA public TO {users}",
        "GRANT CONNECT ON DATABASE {where} TO {users}",
        "GRANT CREATE, TEMPORARY ON DATABASE {where} TO {owner}",
        "GRANT USAGE, CREATE ON SCHEMA public TO {owner}",
    ):
        connection.execute(sql.SQL(statement).format(where=where, users=users, owner=owner))
    close_functions(connection, database.owner)
    # A role without the right to grant gets a warning, not an error: look at what came of it.
    open_to_all, owner_creates = connection.execute(
        """SELECT has_database_privilege('public', %(name)s, 'CONNECT'),
                  has_database_privilege(%(owner)s, %(name)s, 'CREATE')
                  AND has_schema_privilege(%(owner)s, 'public', 'CREATE')""",
        {"name": name, "owner": database.owner},
    ).fetchone() or (True, False)
    if open_to_all or not owner_creates:
        raise SetupError(
            f"the user of postgres.{database.setting} may not change privileges of {name}",
            hint="give the DSN of the database's owner or of a superuser",
        )


def _login(settings: Settings, instance: Instance, role: str) -> str:
    """Where and as whom, without the password."""
    database = next(each for each in (STATE, DATA) if role in each.roles)
    external = _external(settings, database)
    if external:
        return make_conninfo(_without_login(external, database), user=role)
    return _embedded(instance, database.name, role)


def _secret_name(role: str) -> str:
    return f"pg_{role}"


def _external(settings: Settings, database: Database) -> str | None:
    value: str | None = getattr(settings.postgres, database.setting)
    return value


def _embedded(instance: Instance, database: str, user: str) -> str:
    return make_conninfo(
        host=HOST,
        port=instance.port("postgres"),
        dbname=database,
        user=user,
        connect_timeout=10,
        # Loopback to a server built without TLS: do not ask for it first.
        sslmode="disable",
        gssencmode="disable",
        # Whoever holds the port while the server is down is told no password, and is believed only
        # when it proves that it knows the role's.
        require_auth="scram-sha-256",
    )


def _refuse_shared_database(settings: Settings) -> None:
    given = [_external(settings, database) for database in (STATE, DATA)]
    if None in given:
        return
    places = [
        tuple(_parsed(text or "", database).get(key) for key in ("host", "port", "dbname"))
        for text, database in zip(given, (STATE, DATA), strict=True)
    ]
    if places[0] == places[1]:
        raise SetupError(
            "postgres.state_dsn and postgres.data_dsn name the same database",
            hint="create a second one: workers must never reach the state",
        )


def _without_login(text: str, database: Database) -> str:
    kept = {k: v for k, v in _parsed(text, database).items() if k not in ("user", "password")}
    return make_conninfo(**{name: str(value) for name, value in kept.items()})


def _parsed(text: str, database: Database) -> dict[str, object]:
    try:
        return dict(conninfo_to_dict(text))
    except psycopg.Error:
        # The parser's message repeats the text, and with it the password.
        raise SetupError(
            f"postgres.{database.setting} is not a connection string",
            hint="write postgresql://user:password@host:5432/name",
        ) from None


@contextmanager
def _connected(text: str, database: Database) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(text, autocommit=True) as connection:
            yield connection
    except psycopg.errors.InsufficientPrivilege as error:
        raise SetupError(
            f"the user of postgres.{database.setting} lacks a right: {error.diag.message_primary}",
            hint="it must be able to create roles, and own the database or be a superuser",
        ) from None
    except psycopg.errors.LockNotAvailable:
        raise SetupError(
            f"somebody else is preparing the {database.name.removeprefix('trace_')} database",
            hint="is another `trace up` or `trace migrate` under way? else look at pg_locks",
        ) from None
    except psycopg.OperationalError as error:
        raise SetupError(
            f"cannot reach the {database.name.removeprefix('trace_')} database: {error}",
            hint="is Postgres running, and is the DSN right? `trace doctor` looks closer",
        ) from None


def _check_version(connection: psycopg.Connection) -> None:
    version = connection.info.server_version // 10000
    if version < _OLDEST:
        raise SetupError(f"Postgres {version} is too old", hint=f"Trace needs {_OLDEST} or newer")


def _make_roles(connection: psycopg.Connection, home: Home, database: Database) -> None:
    known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
    for role in database.roles:
        name = sql.Identifier(role)
        if role not in known:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
        # Hashed here, so that no server log can ever hold the password.
        verifier = connection.pgconn.encrypt_password(
            home.secret(_secret_name(role)).encode(), role.encode(), b"scram-sha-256"
        ).decode()
        connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(verifier)))
        reset_settings(connection, role)
        if role == READ_ONLY:
            read_only = "ALTER ROLE {} SET default_transaction_read_only = on"
            connection.execute(sql.SQL(read_only).format(name))
    limit_connections(connection, database.roles)


def _make_database(connection: psycopg.Connection, database: Database) -> None:
    connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
    query = "SELECT 1 FROM pg_database WHERE datname = %s"
    if connection.execute(query, (database.name,)).fetchone():
        return
    create = sql.SQL("CREATE DATABASE {} OWNER {}")
    names = sql.Identifier(database.name), sql.Identifier(database.owner)
    connection.execute(create.format(*names))
