"""`python -m tests.support.killable_committer HOME`: the dispatcher of `killable_process`, whose
steps count whether or not a version is being built."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from tests.support import killable_process
from tests.support.killable_process import Steps


class AlwaysCounting(Steps):
    def patch_verb(self, module: ModuleType, name: str, verb: str, always: bool) -> None:
        super().patch_verb(module, name, verb, always=True)


if __name__ == "__main__":
    killable_process.Steps = AlwaysCounting  # type: ignore[misc]
    killable_process._prepare(Path(sys.argv[1]))
    sys.exit(killable_process._supervise(Path(sys.argv[1])))
