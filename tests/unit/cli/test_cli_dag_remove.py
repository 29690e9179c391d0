"""What `trace dag remove` says before it asks."""

from __future__ import annotations

from uuid import uuid4

from trace_platform.cli.dag_list import facts
from trace_platform.wire.plan import Amount, RemovalPlan


def test_what_is_kept_is_told_with_the_command_that_deletes_it() -> None:
    kept = RemovalPlan(
        dag_name="mine",
        dag_version=uuid4(),
        sources=[],
        unpublishes=[],
        tasks=0,
        backfills=0,
        keeps=Amount(partitions=2, rows=3000, bytes=4096),
        readers=[],
        building=None,
    )
    *_, held, purge = facts(kept)
    assert "2 partitions, 3,000 rows" in held
    assert "trace datasets purge mine.JOB --keep 0" in purge
    nothing = kept.model_copy(update={"keeps": Amount()})
    assert not any("purge mine" in line for line in facts(nothing))
