"""`trace deploy`: a DAG file becomes the active version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_platform.app import control_client
from trace_platform.app.home import Home
from trace_platform.cli.options import HomeOption, JsonOption


def deploy(
    file: Annotated[Path, typer.Argument(help="The DAG file.")],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a DAG file and make it the active version of its DAG."""
    yaml = control_client.read_dag_file(file)
    done = control_client.deploy(Home.at(home), yaml, str(file))
    if as_json:
        typer.echo(done.model_dump_json())
        return
    if not done.new:
        typer.echo(f"{done.dag_name}: unchanged, version {str(done.dag_version)[:8]} is active")
        return
    changed = ", ".join(done.added) or "none"
    typer.echo(
        f"{done.dag_name}: version {str(done.dag_version)[:8]} is active"
        f" ({len(done.jobs)} jobs; new or changed: {changed})"
    )
