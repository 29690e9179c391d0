"""An edit of SQL names exactly the columns that change, in its job and in those below."""

from __future__ import annotations

from trace_platform.dag.check.check_dag import CheckedDag, check_file
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dispatcher.versions.changed_columns import with_columns
from trace_platform.wire.plan import JobChange

DAG = """
name: d
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: request } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 1, rpc_pool: mainnet }
  - name: picked
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: ingest, output: logs } }]
    outputs: [picked]
    config:
      mode: map
      steps:
        - name: early
          sql: select block_number, address, data, log_index from logs where log_index < 9
        - name: picked
          sql: |
            select block_number, address, hex(data) as text, log_index + 1 as place from early
  - name: busy
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: picked } }]
    outputs: [busy]
    config:
      mode: full
      sql: select address, max(text) as most, count(*) as n from picked group by address
  - name: places
    activation: reactive
    runtime: ecs_platform
    operator: sql_transform
    inputs: [{ from: { job: picked } }]
    outputs: [places]
    config: { mode: map, sql: select * from picked where place > 1 }
"""
# What stands there, what is put there, and what a plan says of each job that is built anew.
EDITS: list[tuple[str, str, dict[str, str]]] = [
    ("hex(data) as text", "hex(data)\n              as text -- as it was\n              ", {}),
    ("hex(data) as text", "HEX(data) AS text", {"picked": "", "busy": "", "places": ""}),
    (
        "hex(data) as text",
        "lower(hex(data)) as text",
        {"picked": "text changed", "busy": "most changed", "places": "text changed"},
    ),
    (
        "hex(data) as text",
        "data as text",
        {"picked": "text changed", "busy": "most changed", "places": "text changed"},
    ),
    (
        "select block_number, address, data, log_index from logs",
        "select block_number, address, topic0 as data, log_index from logs",
        {"picked": "text changed", "busy": "most changed", "places": "text changed"},
    ),
    (
        "log_index < 9",
        "log_index < 8",
        {"picked": "rows", "busy": "rows", "places": "rows"},
    ),
    (
        "log_index + 1 as place",
        "log_index + 2 as place",
        {"picked": "place changed", "busy": "", "places": "rows, place changed"},
    ),
    (
        "hex(data) as text,",
        "hex(data) as text, data,",
        {"picked": "data added", "busy": "", "places": "data added"},
    ),
    (
        "select block_number, address, hex(data) as text",
        "select address, hex(data) as text",
        {
            "picked": "block_number removed",
            "busy": "",
            "places": "block_number removed",
        },
    ),
    ("count(*) as n", "count(*) as m", {"busy": "m added, n removed"}),
    ("max(text) as most", "min(text) as most", {"busy": "most changed"}),
    ("place > 1", "place > 2", {"places": "rows"}),
    # What a fetch of a chain makes does not follow from anything.
    ("chain_id: 1", "chain_id: 2", {"ingest": "?", "picked": "?", "busy": "?", "places": "?"}),
]


def planned(before: CheckedDag, after: CheckedDag) -> dict[str, str]:
    old, new = fingerprints(before.dag), fingerprints(after.dag)
    built = [JobChange(job=n, action="changed", why=[]) for n in new if new[n] != old[n]]
    found = with_columns(after.dag, built, before.derivations, after.derivations)
    return {each.job: _said(each) for each in found}


def _said(job: JobChange) -> str:
    if job.columns is None:
        return "?"
    found = [
        part
        for output in job.columns
        for part in (
            *(["rows"] if output.rows else []),
            *sorted(f"{each.column} {each.change}" for each in output.columns),
        )
    ]
    return ", ".join(found)


def test_an_edit_names_exactly_the_columns_that_change() -> None:
    before = check_file(DAG)
    for old, new, said in EDITS:
        assert DAG.count(old) == 1, old
        assert planned(before, check_file(DAG.replace(old, new))) == said, (old, new)


def test_a_version_of_which_nothing_is_known_says_nothing() -> None:
    before, after = check_file(DAG), check_file(DAG.replace("place > 1", "place > 2"))
    (change,) = with_columns(
        after.dag, [JobChange(job="places", action="changed", why=[])], {}, after.derivations
    )
    assert change.columns is None
    assert before.derivations
