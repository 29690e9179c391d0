"""A reader's Python: one interpreter for a page, which keeps what its blocks defined."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.documents_shell import Ran

_SESSION = """
import contextlib, io, json, sys, traceback
answers = sys.stdout
names = {"__name__": "page"}
for line in sys.stdin:
    asked = json.loads(line)
    said = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            exec(compile(asked["code"], asked["page"], "exec"), names)
        except BaseException:
            code = 1
            traceback.print_exc()
    print(json.dumps({"code": code, "printed": said.getvalue()}), file=answers, flush=True)
"""


class Python:
    def __init__(self, folder: Path, page: str, env: Mapping[str, str]) -> None:
        self._page = page
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SESSION],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=dict(env),
            text=True,
        )

    def run(self, code: str) -> Ran:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps({"code": code, "page": self._page}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the interpreter ended"
        return Ran(**json.loads(answer))

    def close(self) -> None:
        self._process.communicate(timeout=60)


def shown(code: str) -> list[str]:
    """What a page says that its `print` calls print: the comment behind each."""
    return [said.strip() for said in re.findall(r"^ *print\(.*\)  +# (.+)$", code, re.MULTILINE)]
