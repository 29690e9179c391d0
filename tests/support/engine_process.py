"""`python -m tests.support.engine_process NAME HOME [SECONDS]`: a process of Trace that knows the
`witness` operator, and whose wall clock is so many seconds ahead (or, below zero, behind)."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path


def _end_with_parent() -> None:
    """Whoever started this holds our standard input open: without them there is no test."""

    def wait() -> None:
        # Past `sys.stdin`, whose lock would be missed when the interpreter ends.
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        from tests.support.shifted_clock import shift_wall_clock

        shift_wall_clock(float(sys.argv[3]))

    from trace_platform.app import processes
    from trace_platform.app.instance.home import Home
    from trace_platform.operators import registry

    registry.OPERATORS["witness"] = "tests.support.witness_operator.Witness"
    registry.OPERATORS["lineage"] = "tests.support.lineage_operator.Lineage"
    registry.OPERATORS["gather"] = "tests.support.gather_operator.Gather"
    _end_with_parent()
    processes.run(sys.argv[1], Home(Path(sys.argv[2])))
