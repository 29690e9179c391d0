"""`trace init`: a folder with a DAG to begin with. Nothing needs to run for that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_platform.domain.errors import BadInput

SCHEMA = ".trace-dag.schema.json"
_EDITORS = f"# yaml-language-server: $schema={SCHEMA}\n"
DEFAULT = "chain"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to; it is made when it is not there.")
    ] = Path("."),
    example: Annotated[
        str, typer.Option("--example", metavar="NAME", help="The example to begin with.")
    ] = DEFAULT,
) -> None:
    """Write a DAG file with comments, and what editors need to complete and check it.

    Examples: bootstrap, chain, checked, decode, dex_prices, erc20_analytics, export, follow,
    labels, nft_holders, own_code, scheduled, transform. Nothing that is there is overwritten.
    """
    files = _files(example)
    # A second example has the same schema beside it.
    files = {name: text for name, text in files.items() if not _is_same(folder / name, text)}
    there = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise BadInput(
            f"{folder / there[0]} is there already, and nothing was written",
            hint="name another folder, or another example",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (folder / name).open("x") as file:
                file.write(text)
    except OSError as error:
        raise BadInput(f"{folder} cannot be written: {error.strerror}") from None
    for name in files:
        typer.echo(f"wrote {folder / name}")
    typer.echo(f"next: trace dag lint {folder / example}.yaml")


def _is_same(file: Path, text: str) -> bool:
    try:
        return file.name == SCHEMA and not file.is_symlink() and file.read_text() == text
    except (OSError, UnicodeDecodeError):
        return False


def _files(example: str) -> dict[str, str]:
    """By name: the DAG file, the code beside it, and the schema of both."""
    from trace_platform.app.code_beside import code_beside
    from trace_platform.cli.dag import schema_text
    from trace_platform.domain.alike import meant

    examples = _examples()
    if example not in examples:
        cure = meant(example, examples) or f"there are {', '.join(sorted(examples))}"
        raise BadInput(f"there is no example {example!r}", hint=cure)
    text = examples[example].read_text()
    beside = code_beside(examples[example].parent, text).files
    return {f"{example}.yaml": _EDITORS + text, **beside, SCHEMA: schema_text()}


def _examples() -> dict[str, Path]:
    import trace_platform.examples

    (folder,) = trace_platform.examples.__path__
    return {file.stem: file for file in sorted(Path(folder).glob("*.yaml"))}
