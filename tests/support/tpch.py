"""TPC-H: its tables as Parquet files, and its 22 queries with the parameters of its validation."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

TABLES = (
    *("customer", "lineitem", "nation", "orders"),
    *("part", "partsupp", "region", "supplier"),
)
_QUERIES = Path(__file__).with_name("tpch_queries")
QUERIES = {file.stem: file.read_text() for file in sorted(_QUERIES.glob("*.sql"))}


def tpch_files(folder: Path, scale: float, parts: int = 3) -> dict[str, list[Path]]:
    """By table: the same rows whenever they are made, in up to `parts` files. Made on the first
    call with a folder, found there by the next ones."""
    made = folder / f"scale-{scale:g}-in-{parts}"
    if not made.exists():
        partial = made.with_name(f".{made.name}")
        tool = str(Path(sysconfig.get_path("scripts"), "tpchgen-cli"))
        shape = [f"--scale-factor={scale:g}", f"--parts={parts}", f"--output-dir={partial}"]
        subprocess.run([tool, "parquet", "--quiet", "--overwrite", *shape], check=True)
        partial.rename(made)
    return {table: sorted((made / table).glob("*.parquet")) for table in TABLES}
