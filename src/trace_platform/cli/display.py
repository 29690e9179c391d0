"""Shows how the processes of an instance come and go."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from trace_platform.app.supervise.process import Progress

_SHOWN = {
    "ready": "[green]ready[/green]    {name}{took}",
    "died": "[yellow]died[/yellow]     {name}: {detail}; starting it again",
    "stopped": "stopped  {name}{detail}",
    "left over": "stopping {name} (left over from a supervisor that was killed)",
}


class StartDisplay:
    """A line for each change, and a spinner that names what is awaited. Give it as `report`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began: dict[str, float] = {}
        self._status: Status | None = None

    def __enter__(self) -> StartDisplay:
        if self._console.is_terminal:
            self._status = self._console.status("starting ...")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.settle()

    def settle(self) -> None:
        """Nothing is awaited any more: the spinner goes, later changes are still shown."""
        if self._status:
            self._status.stop()
            self._status = None

    def __call__(self, progress: Progress) -> None:
        name = progress.name
        if progress.state == "starting":
            self._began[name] = time.monotonic()
            if self._status is None:
                self._console.print(f"starting {name} ...")
        elif progress.state in _SHOWN:
            self._console.print(self._line(progress), highlight=False, soft_wrap=True)
            self._began.pop(name, None)
        if self._status:
            self._status.update(f"starting {', '.join(self._began) or '...'}")

    def _line(self, progress: Progress) -> str:
        began = self._began.get(progress.name)
        took = f" [dim]({time.monotonic() - began:.1f} s)[/dim]" if began else ""
        detail = escape(progress.detail)
        if progress.state == "stopped" and detail:
            detail = f" ({detail})"
        return _SHOWN[progress.state].format(name=progress.name, took=took, detail=detail)
