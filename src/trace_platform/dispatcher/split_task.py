"""⑦ A task whose range is too large for one becomes several of the same job."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import BadInput
from trace_platform.drivers.postgres.queries import Row, Tx
from trace_platform.state import tasks
from trace_platform.wire.task import Span


def check_split(task: Row, parts: Sequence[Span]) -> None:
    """Raise BadInput unless the parts, two or more, are exactly the range that woke the task."""
    woken = _woken(task)
    if len(woken) != 1 or "start" not in woken[0]:
        raise BadInput("only a task that one block range woke can be split")
    whole = (woken[0]["start"], woken[0]["end"])
    joined = all(before.end + 1 == after.start for before, after in pairwise(parts))
    if len(parts) < 2 or not joined or (parts[0].start, parts[-1].end) != whole:
        raise BadInput(f"the parts are not the task's range {whole[0]}-{whole[1]}, cut in order")


async def split_task(tx: Tx, task: Row, parts: Sequence[Span]) -> None:
    """In the transaction that ends it, after `check_split`."""
    given = _woken(task)[0]
    spans = [BlockRange(part.start, part.end) for part in parts]
    await tasks.split(
        tx,
        task["id"],
        [
            [given | {"partition_key": span.key, "start": span.start, "end": span.end}]
            for span in spans
        ],
    )


def _woken(task: Row) -> list[dict[str, Any]]:
    return [given for given in task["inputs"] if given.get("trigger", True)]
