"""cryo, the peer whose columns ours must equal, in a venv of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "cryo==0.3.2"

_FREEZE = """
import sys, cryo
url, out, start, end = sys.argv[1:]
cryo.freeze(
    ["blocks", "transactions", "logs"],
    blocks=[f"{start}:{end}"], rpc=url, output_dir=out, hex=False, verbose=False,
)
"""


def cryo_python() -> Path:
    place = ROOT / ".tools" / "cryo"
    python = place / "bin" / "python"
    if (place / "installed").exists():
        return python
    try:
        place.parent.mkdir(exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        _run([sys.executable, "-m", "venv", place])
        _run([python, "-m", "pip", "install", "--quiet", PACKAGE])
        _run([python, "-c", "import cryo"])
        (place / "installed").touch()
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        pytest.skip(f"cannot install {PACKAGE}: {said.strip()[-300:]}")
    return python


def cryo_tables(url: str, start: int, end: int, out: Path) -> dict[str, pa.Table]:
    """What cryo writes for blocks `start` to `end`, both included."""
    _run([cryo_python(), "-c", _FREEZE, url, out, str(start), str(end + 1)])
    return {
        table: pa.concat_tables(
            pq.read_table(path) for path in sorted(out.glob(f"*__{table}__*.parquet"))
        )
        for table in ("blocks", "transactions", "logs")
    }


def _run(command: list[str | Path]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
