"""The jobs of a DAG, those first that others read."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from trace_platform.dag.check.names import Names
from trace_platform.dag.model.dag import Job


def order_jobs(names: Names) -> list[Job]:
    """In the order of the file where they read each other in a circle."""
    above = {
        name: {
            ref.job
            for edge in job.inputs
            for ref in names.producers(edge.source)
            if ref.job in names.jobs
        }
        for name, job in names.jobs.items()
    }
    try:
        return [names.jobs[name] for name in TopologicalSorter(above).static_order()]
    except CycleError:
        return list(names.jobs.values())
