"""`trace up`"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.cli.options import HomeOption

if TYPE_CHECKING:
    from rich.console import Console

    from trace_platform.app.instance.home import Home
    from trace_platform.app.instance.open_instance import Instance
    from trace_platform.app.instance.settings import Settings


def up(
    home: HomeOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once everything is ready.")
    ] = False,
    spark_master: Annotated[
        str | None,
        typer.Option(
            help="Where Spark runs, such as spark://host:7077, instead of [spark] master."
            " Refused when nobody answers there."
        ),
    ] = None,
    in_background: Annotated[bool, typer.Option("--in-background", hidden=True)] = False,
) -> None:
    """Start an instance and keep it running: what dies is started again.

    Ctrl-C (or `trace down` from elsewhere) stops it.
    """
    from trace_platform.app.instance.home import Home

    place = Home.at(home)
    env = {"TRACE_SPARK_MASTER": spark_master} if spark_master else {}
    if detach:
        _detached(place, env)
    elif in_background:
        _background(place, env)
    else:
        _foreground(place, env)


def _foreground(home: Home, env: Mapping[str, str]) -> None:
    from rich.console import Console

    from trace_platform.app.supervise.lite_stack import running
    from trace_platform.cli.display import StartDisplay
    from trace_platform.cli.signals import stop_on_signals

    console = Console()
    settings = _settings(home, env)
    _look_for_spark(settings, env, console)
    display = StartDisplay(console)
    with stop_on_signals(), display, running(home, settings, display, env=env) as found:
        display.settle()
        _show_ready(console, home, found, settings)
        console.print("Ctrl-C stops it.")
        threading.Event().wait()


def _background(home: Home, env: Mapping[str, str]) -> None:
    from trace_platform.app.supervise.control import write_failure
    from trace_platform.app.supervise.lite_stack import running
    from trace_platform.app.supervise.ready import mark_ready
    from trace_platform.cli.signals import stop_on_signals
    from trace_platform.domain.errors import TraceError

    try:
        with stop_on_signals(), running(home, _settings(home, env), env=env):
            mark_ready(home, "supervisor")
            threading.Event().wait()
    except TraceError as error:
        write_failure(home, error)
        raise


def _detached(home: Home, env: Mapping[str, str]) -> None:
    from rich.console import Console

    from trace_platform.app.instance.open_instance import open_instance
    from trace_platform.app.supervise.control import start_detached
    from trace_platform.app.supervise.supervisor import refuse_second
    from trace_platform.cli.display import StartDisplay

    settings = _settings(home, env)  # what is wrong with it is better said here
    refuse_second(home)
    console = Console()
    _look_for_spark(settings, env, console)
    arguments = ["--spark-master", settings.spark.master] if env else []
    with StartDisplay(console) as display:
        start_detached(home, arguments, display)
    _show_ready(console, home, open_instance(home, settings), settings)
    console.print("`trace down` stops it.")


def _settings(home: Home, env: Mapping[str, str]) -> Settings:
    from trace_platform.app.instance.settings import load_settings
    from trace_platform.operators.spark.master import check_master

    for master in env.values():
        check_master(master)  # it is the option that is wrong, and not the settings
    return load_settings(home, {**os.environ, **env})


def _look_for_spark(settings: Settings, env: Mapping[str, str], console: Console) -> None:
    """A master that was asked for just now must be there. One of the settings may come later:
    what needs no Spark runs without it."""
    from trace_platform.domain.errors import SparkUnreachable
    from trace_platform.operators.spark.master import reach_master

    try:
        reach_master(settings.spark.master)
    except SparkUnreachable as error:
        if env:
            raise
        said = f"{error.message}; tasks that need Spark fail and are tried again until it can"
        console.print(said, style="yellow", highlight=False, markup=False, soft_wrap=True)


def _show_ready(console: Console, home: Home, instance: Instance, settings: Settings) -> None:
    from trace_platform.app.instance.login_link import make_login_link

    lines = [f"\nTrace is ready in {home.root}"]
    lines += [f"  {name:<10} {instance.url(name)}" for name in ("dispatcher", "query")]
    lines += [f"  {'spark':<10} {settings.spark.master}"]
    lines += [f"  {'console':<10} {make_login_link(home)}"]
    # A path is not broken at the edge, nor a [part] of it taken for markup.
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
