"""What was found wrong, as invalidations and alerts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from trace_platform.data.alerts import Alert
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.merge_ranges import merge_ranges
from trace_platform.operators.checks.integrity.stored import Partition
from trace_platform.wire.task import Invalidation

CODE = "integrity_mismatch"
# Of the names of invalidations made here.
_NAMESPACE = UUID("6f2f6f2a-5a53-4a52-9d0f-8d1f5a0c7a11")
# A partition with more holes than this is made anew as a whole.
_RANGES_PER_PARTITION = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """Blocks of a partition that are not what the chain has."""

    partition: Partition
    blocks: BlockRange
    what: str
    stored: str
    chain: str

    @property
    def sentence(self) -> str:
        where = self.blocks.key if len(self.blocks) > 1 else str(self.blocks.start)
        return (
            f"{self.partition.table} of block {where}: {self.what} is {self.stored}, "
            f"the chain has {self.chain}"
        )


@dataclass(frozen=True, slots=True)
class Wrong:
    """A range of one partition with all that was found in it; one incident."""

    partition: Partition
    blocks: BlockRange
    findings: tuple[Finding, ...]

    @property
    def watch(self) -> str:
        """Of a partition, which is made anew as a whole, whichever files hold it and whichever
        of its blocks were looked at."""
        return f"integrity:{self.partition.given.dataset_version}:{self.partition.blocks.key}:"

    @property
    def files(self) -> str:
        """Of the watch: other files are another one, the first were repaired, and not well."""
        return hashlib.sha256(self.partition.location.encode()).hexdigest()[:16]

    @property
    def incident(self) -> str:
        return f"{self.watch}{self.files}:{self.blocks.key}"

    def invalidation(self) -> Invalidation:
        """The same one in every attempt of a task."""
        given, more = self.partition.given, len(self.findings) - 1
        said = self.findings[0].sentence + (f"; and {more} more" if more else "")
        return Invalidation(
            dataset_uuid=given.dataset_uuid,
            dataset_version=given.dataset_version,
            scope="row_range",
            start=self.blocks.start,
            end=self.blocks.end,
            reason=f"integrity_check: {said}"[:2_000],
            request_id=uuid5(_NAMESPACE, self.incident),
        )

    def alert(self, finalized: int, *, is_given_up: bool) -> Alert:
        first = self.findings[0]
        is_critical = is_given_up or self.blocks.start <= finalized
        given_up = "; repairs do not help, it is left as it is" if is_given_up else ""
        return Alert(
            severity="critical" if is_critical else "warning",
            code=CODE,
            message=f"{first.sentence}{given_up}",
            # What was not final yet when it was found is told once more when it is.
            dedupe_key=f"{self.incident}:critical" if is_critical else self.incident,
            facts={
                "table": self.partition.table,
                "dataset_version": str(self.partition.given.dataset_version),
                "start": self.blocks.start,
                "end": self.blocks.end,
                "findings": len(self.findings),
                "what": first.what,
                "stored": first.stored,
                "chain": first.chain,
                "finalized": finalized,
                # It is over when these files have given way to others.
                "location": self.partition.location,
                "is_given_up": is_given_up,
            },
            dataset_uuid=self.partition.given.dataset_uuid,
        )


def merged(findings: Iterable[Finding]) -> list[Wrong]:
    """Neighbouring blocks of a partition are one."""
    by_partition: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_partition[finding.partition.location].append(finding)
    return [wrong for found in by_partition.values() for wrong in _of_partition(found)]


def _of_partition(found: Sequence[Finding]) -> list[Wrong]:
    partition = found[0].partition
    groups = merge_ranges([finding.blocks for finding in found])
    if len(groups) > _RANGES_PER_PARTITION:
        return [Wrong(partition, partition.blocks, tuple(found))]
    return [
        Wrong(partition, group.span, tuple(found[place] for place in group.members))
        for group in groups
    ]
