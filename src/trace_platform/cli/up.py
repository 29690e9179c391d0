"""`trace up`"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.options import HomeOption

if TYPE_CHECKING:
    from rich.console import Console

    from trace_platform.app.home import Home
    from trace_platform.app.instance import Instance


def up(
    home: HomeOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once everything is ready.")
    ] = False,
    spark_master: Annotated[
        str | None, typer.Option(help="Where Spark runs, such as spark://host:7077.")
    ] = None,
    in_background: Annotated[bool, typer.Option("--in-background", hidden=True)] = False,
) -> None:
    """Start an instance and keep it running: what dies is started again.

    Ctrl-C (or `trace down` from elsewhere) stops it.
    """
    from trace_platform.app.home import Home

    place = Home.at(home)
    env = {"TRACE_SPARK_MASTER": spark_master} if spark_master else {}
    if detach:
        _detached(place, spark_master)
    elif in_background:
        _background(place, env)
    else:
        _foreground(place, env)


def _foreground(home: Home, env: Mapping[str, str]) -> None:
    from rich.console import Console

    from trace_platform.app.lite_stack import running
    from trace_platform.app.settings import load_settings
    from trace_platform.cli.display import StartDisplay
    from trace_platform.cli.signals import stop_on_signals

    console = Console()
    display = StartDisplay(console)
    with stop_on_signals(), display, running(home, load_settings(home), display, env=env) as found:
        display.settle()
        _show_ready(console, home, found)
        console.print("Ctrl-C stops it.")
        threading.Event().wait()


def _background(home: Home, env: Mapping[str, str]) -> None:
    from trace_platform.app.control import write_failure
    from trace_platform.app.lite_stack import running
    from trace_platform.app.ready import mark_ready
    from trace_platform.app.settings import load_settings
    from trace_platform.cli.signals import stop_on_signals
    from trace_platform.domain.errors import TraceError

    try:
        with stop_on_signals(), running(home, load_settings(home), env=env):
            mark_ready(home, "supervisor")
            threading.Event().wait()
    except TraceError as error:
        write_failure(home, error)
        raise


def _detached(home: Home, spark_master: str | None) -> None:
    from rich.console import Console

    from trace_platform.app.control import start_detached
    from trace_platform.app.instance import open_instance
    from trace_platform.app.settings import load_settings
    from trace_platform.app.supervisor import refuse_second
    from trace_platform.cli.display import StartDisplay

    settings = load_settings(home)  # what is wrong with it is better said here
    refuse_second(home)
    console = Console()
    arguments = ["--spark-master", spark_master] if spark_master else []
    with StartDisplay(console) as display:
        start_detached(home, arguments, display)
    _show_ready(console, home, open_instance(home, settings))
    console.print("`trace down` stops it.")


def _show_ready(console: Console, home: Home, instance: Instance) -> None:
    lines = [f"\nTrace is ready in {home.root}"]
    lines += [f"  {name:<10} {instance.url(name)}" for name in ("dispatcher", "query")]
    # A path is not broken at the edge, nor a [part] of it taken for markup.
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
