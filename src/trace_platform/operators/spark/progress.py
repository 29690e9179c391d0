"""How far the jobs of a task are, as Spark's status tracker knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_progress(session: SparkSession, tag: str) -> tuple[int, int]:
    """Spark tasks done and known of the tag's jobs."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    done = total = 0
    for job_id in tracker.getJobIdsForTag(tag):
        for stage_id in _stage_ids(tracker.getJobInfo(job_id)):
            stage = tracker.getStageInfo(stage_id)
            if stage.isDefined():
                done += stage.get().numCompletedTasks()
                total += stage.get().numTasks()
    return done, total


def _stage_ids(job: Any) -> list[int]:
    return list(job.get().stageIds()) if job.isDefined() else []
