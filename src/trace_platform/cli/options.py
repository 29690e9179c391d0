"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="TRACE_HOME",
        help="The directory of the instance.",
        show_default=".trace",
        file_okay=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
