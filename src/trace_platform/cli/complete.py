"""Names of DAGs, jobs and datasets while a command is typed, where an instance runs.

A shell waits for this at each press of a key: whatever goes wrong, it ends soon and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import typer

from trace_platform.wire.plan import DagSummary

# Before the shell feels slow.
_WAIT_S = 1.0


def dags(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning(incomplete, (each.dag_name for each in _deployed(ctx)))


def jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """As DAG.JOB."""
    return _beginning(incomplete, _jobs(_deployed(ctx)))


def jobs_of_dag(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the DAG that was typed before, or of all."""
    dag = ctx.params.get("dag")
    found = [each for each in _deployed(ctx) if dag in (None, each.dag_name)]
    return _beginning(incomplete, (job for each in found for job in each.job_names))


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _beginning(incomplete, (name for each in _deployed(ctx) for name in each.datasets))


def datasets_and_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    found = _deployed(ctx)
    names = [name for each in found for name in each.datasets]
    return _beginning(incomplete, [*names, *_jobs(found)])


def _jobs(found: Iterable[DagSummary]) -> Iterable[str]:
    return (f"{each.dag_name}.{job}" for each in found for job in each.job_names)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _deployed(ctx: typer.Context) -> list[DagSummary]:
    try:
        from trace_platform.app.api_client import control_client
        from trace_platform.app.instance.home import Home

        found = control_client.dags(Home.at(ctx.params.get("home")), _WAIT_S).dags
    except Exception:  # a shell shows it amid what is typed
        return []
    return [each for each in found if each.state != "Removed"]
