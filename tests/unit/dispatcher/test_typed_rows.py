"""What SQL gives and takes has types: dicts without one are left where this says, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import trace_platform

ROOT = Path(trace_platform.__file__).parent
# A row of a query, and JSON whose keys nobody has said.
UNTYPED = re.compile(r"\b(Row\b|dict\[str, (Any|object)\])")


def test_a_dict_without_a_type_is_in_no_signature_but_these() -> None:
    """New ones are refused, and what has got a type since has to go from the list."""
    found = {f"{path}: {name}" for path, name in _untyped()}
    listed = {f"{path}: {name}" for path, names in _listed() for name in names}
    assert sorted(found - listed) == [], "give what SQL gives or takes a dataclass"
    assert sorted(listed - found) == [], "these have a type now: take them from the list"


def _untyped() -> Iterator[tuple[str, str]]:
    for folder in ("dispatcher", "state"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            for node in ast.walk(ast.parse(path.read_text())):
                if any(UNTYPED.search(said) for said in _annotations(node)):
                    yield place, node.name  # type: ignore[attr-defined]


def _annotations(node: ast.AST) -> Iterator[str]:
    """What a function takes and gives. A field may be open JSON, such as a job's config."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        said = [each.annotation for each in arguments if each is not None] + [node.returns]
    else:
        said = []
    yield from (ast.unparse(each) for each in said if each is not None)


def _listed() -> Iterator[tuple[str, list[str]]]:
    for lines in LEFT.values():
        for line in lines.strip().splitlines():
            path, _, names = line.strip().partition(": ")
            yield path, names.split()


LEFT = {
    "JSON that is open: keys of a standard, of a log line, of what operators or users write": """
        dispatcher/api/routes.py: __call__
        dispatcher/api/workers.py: jwks
        dispatcher/datasets/list_datasets.py: entry_fields
        dispatcher/events/expire_correlations.py: _facts
        dispatcher/events/publish_outbox.py: _messages
        dispatcher/operators/wire_tap.py: _facts
        dispatcher/tasks/complete_task.py: _scope
        dispatcher/tasks/read_state.py: read_state
        dispatcher/tasks/task_tokens.py: _claims _granted jwks
        dispatcher/versions/find_change.py: publish_metadata
        state/correlations.py: arrive
        state/dags.py: set_publishes add_edge
        state/events.py: route
        state/operator_state.py: read
        state/tasks.py: extend_leases
    """,
    "rows that are only shown to people and readers: registry, overview, history, alerts": """
        dispatcher/datasets/explain_dataset.py: answer_of _said_fresh _fresh
        dispatcher/datasets/find_dataset.py: find_dataset find_version find_files find_generation
        dispatcher/datasets/judge_datasets.py: _failures _ended_badly _error _holds _source
        dispatcher/datasets/judge_datasets.py: _distance_to_head _inputs _tasks _invalid
        dispatcher/datasets/judge_datasets.py: _known_wrong max_age_of _is_too_old _too_old
        dispatcher/datasets/judge_datasets.py: _unmade
        dispatcher/datasets/known_columns.py: said_columns known_columns
        dispatcher/datasets/list_partitions.py: _refuse_table
        dispatcher/datasets/resolve_datasets.py: _cut_over _refuse_unreadable _resolved
        dispatcher/datasets/resolve_datasets.py: _is_narrower _missing _not_personal
        dispatcher/datasets/show_dataset.py: file_bytes _cold _columns _committed
        dispatcher/datasets/survey_datasets.py: dataset_label
        dispatcher/datasets/trace_lineage.py: _refuse_unknown_column
        dispatcher/datasets/wrong_datasets.py: wrong_datasets parts_read
        dispatcher/events/dead_letters.py: _letter
        dispatcher/health/check_health.py: _standing _failure_rate _source_heartbeat _dead _stuck
        dispatcher/health/check_health.py: _late _name _workers_at_capacity _dataset_freshness
        dispatcher/health/check_health.py: _database_locks _outages _alerts _standing_words
        dispatcher/health/check_health.py: free_slots _full
        dispatcher/health/describe.py: _group
        dispatcher/health/explain_job.py: _is_of _outage _arriving _failing
        dispatcher/health/explain_task.py: _why _ended _outage _running _waiting _holds _said
        dispatcher/health/explain_task.py: _progress _for _ago _due
        dispatcher/health/list_alerts.py: alert_of
        dispatcher/health/measure.py: _worker_samples _silence_samples _age_samples _job
        dispatcher/health/measure_alerts.py: _labels
        dispatcher/health/standing_alerts.py: standing_alerts by_dataset of_version _says_wrong
        dispatcher/health/wait_reasons.py: stuck_reason
        dispatcher/pressure/list_queues.py: _queue _hold _pressure
        dispatcher/redo/invalidate.py: _refuse_another
        dispatcher/sources/list_sources.py: state_of stuck_s stuck_words _progress _ends _status
        dispatcher/sources/list_sources.py: _next
        dispatcher/storage/explain_garbage.py: _kept
        dispatcher/storage/purge_generation.py: _asked _refuse_used _amounts
        dispatcher/storage/retire_superseded.py: _delete
        dispatcher/tasks/read_task_log.py: _lines _line _no_attempt
        dispatcher/tasks/show_task.py: find_task _limits
        dispatcher/versions/check_sql.py: _seen
        dispatcher/versions/find_lacks.py: _without_worker _without_source_slot
        state/datasets.py: find commit_delivery
        state/garbage.py: outputs_of
        state/overview.py: queues holds pressures workers tasks_named outbox source_lags
        state/overview.py: recent_ends longest_lock_wait outages source_silences task task_groups
        state/overview.py: tasks_between tasks_ending place slot_holders newest_failure
        state/overview.py: inputs_of_job newest_outputs
        state/queries.py: record newest accesses
        state/query_datasets.py: moments _meant described cold_parts _with_cold held
        state/query_datasets.py: columns_of_generations
        state/registry.py: jobs edges datasets amounts gaps ages versions partitions building
        state/registry.py: outputs_of_generations files_of_generations uses
        state/sources.py: listing
        state/staleness.py: tasks open_invalidations
        state/superseded.py: due kept_at mark_deleted bytes_of
    """,
}
