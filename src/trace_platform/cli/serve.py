"""`trace serve NAME`"""

from __future__ import annotations

from typing import Annotated

import typer

from trace_platform.cli.options import HomeOption


def _known(name: str) -> str:
    from trace_platform.app.processes import NAMES

    if name not in NAMES:
        raise typer.BadParameter(f"there is no process '{name}'; one of: {', '.join(NAMES)}")
    return name


def serve(
    name: Annotated[
        str,
        typer.Argument(
            help="dispatcher, gateway, query, rpc, scheduler or worker", callback=_known
        ),
    ],
    home: HomeOption = None,
) -> None:
    """Run one process in the foreground, logging JSON lines to the standard output."""
    import sys

    import structlog

    from trace_platform.app.instance.home import Home
    from trace_platform.app.supervise.log import configure_logging
    from trace_platform.domain.errors import TraceError

    # The plain one: a process outlives whoever read its log.
    configure_logging(name, sys.__stdout__)
    log = structlog.get_logger(__name__)
    try:
        from trace_platform.app import processes

        processes.run(name, Home.at(home))
    except TraceError as error:
        # Standard output is this process's log.
        log.error("process_failed", code=error.code, message=error.message, hint=error.hint)
        raise typer.Exit(1) from None
    except Exception:
        log.critical("unexpected_error", exc_info=True)
        raise typer.Exit(70) from None
