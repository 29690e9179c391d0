"""What is wrong with a check is said where it is written, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dag.read.errors import DagErrors

EXAMPLES = Path(__file__).parents[3] / "src/trace_platform/examples"

DAG = """
name: chain
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }}, outputs: [ranges] }}
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{{ from: {{ job: request }} }}]
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 1, rpc_pool: mainnet }}
    checks:
      - {check}
  - name: passing
    activation: reactive
    runtime: dispatcher
    operator: wire_tap
    inputs: [{{ from: {{ job: ingest, output: blocks }} }}]
  - name: report
    activation: reactive
    runtime: ecs_platform
    operator: query_export
    inputs: [{{ from: {{ dataset: blocks }} }}]
    config: {{ sql: select 1 as one from input_0 }}
publish:
  blocks: {{ from: {{ job: ingest, output: blocks }} }}
"""
NOT_NULL = "kind: not_null, columns: [author]"
REFERENCES = "kind: foreign_key, columns: [block_number], references:"
CALL = f"kind: eth_call, rpc_pool: a, chain_id: 1, to: '0x{'12' * 20}', equals: sum(gas_used)"

WRONG = {
    "{ kind: not_nul, columns: [author] }": "did you mean 'not_null'?",
    "{ kind: not_null, column: author }": "did you mean 'columns'?",
    f"{{ {NOT_NULL}, on_failure: stop }}": "write warn, block, or",
    f"{{ {NOT_NULL}, output: block }}": "no output 'block'; it has blocks",
    f"{{ {NOT_NULL}, on_failure: {{ block: [reprot] }} }}": "no job 'reprot'",
    f"{{ {NOT_NULL}, output: logs, on_failure: {{ block: [report] }} }}": "does not read logs",
    f"{{ {NOT_NULL}, on_failure: {{ block: [passing] }} }}": "reads no rows",
    "{ kind: range, column: gas_used }": "give min, max or both",
    "{ kind: row_count, min: 3, max: 2 }": "min is more than max",
    "{ kind: freshness, column: timestamp, max_age: soon }": "write a duration as 90s",
    f"{{ {REFERENCES} {{ columns: [block_number] }} }}": "give either input or output",
    f"{{ {REFERENCES} {{ input: 1, columns: [block_number] }} }}": "no input 1; they are 0 to 0",
    f"{{ {REFERENCES} {{ input: 0, columns: [a, b] }} }}": "as many columns",
    f"{{ {NOT_NULL} }}\n      - {{ {NOT_NULL} }}": "called 'not_null_author' too",
    "{ kind: drift, column: gas_used }": "give z_score, kl or both",
    "{ kind: drift, column: gas_used, kl: 1, at_least: 30 }": "at_least is more than partitions",
    f"{{ {CALL}, function: balanceOf(adress) }}": "there is no type 'adress'",
    f"{{ {CALL}, function: balanceOf(address) }}": "takes 1 arguments, not 0",
    f"{{ {CALL}, function: a(), returns: string }}": "no type of one word",
    "not_null": "write it as a mapping",
}


def told(errors: DagErrors) -> str:
    return "\n".join(each.at("dag.yaml") for each in errors.errors)


@pytest.mark.parametrize("check", WRONG)
def test_a_wrong_check_is_refused_with_its_cure(check: str) -> None:
    with pytest.raises(DagErrors) as raised:
        check_dag(DAG.format(check=check))
    assert WRONG[check] in told(raised.value)


def test_checks_of_jobs_that_commit_no_files_of_their_own_are_refused() -> None:
    def refused(text: str) -> str:
        with pytest.raises(DagErrors) as raised:
            check_dag(text)
        return told(raised.value)

    right = DAG.format(check=f"{{ {NOT_NULL} }}")
    checks = "checks: [{ kind: gaps }]"
    found = refused(right.replace("operator: wire_tap", f"operator: wire_tap\n    {checks}"))
    assert "Trace's own workers run checks" in found
    split = "operator: range_splitter\n    config: { chunk_blocks: 5 }\n    " + checks
    found = refused(
        right.replace("operator: wire_tap", split).replace(
            "runtime: dispatcher", "runtime: ecs_platform"
        )
    )
    assert "have no rows to check" in found
    found = refused(right.replace("outputs: [ranges] }", f"outputs: [ranges], {checks} }}"))
    assert "a source commits no partitions" in found


def test_a_check_is_no_part_of_what_a_job_makes() -> None:
    one = check_dag(DAG.format(check=f"{{ {NOT_NULL}, on_failure: {{ block: [report] }} }}"))
    other = check_dag(DAG.format(check="{ kind: freshness, column: timestamp, max_age: 1d }"))
    assert fingerprints(one) == fingerprints(other)
    assert one.content_hash != other.content_hash
    assert other.jobs[1].checks[0].max_age == 86_400  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["checked.yaml", "labels.yaml"])
def test_the_examples_are_right(name: str) -> None:
    dag = check_dag((EXAMPLES / name).read_text())
    assert any(job.checks for job in dag.jobs)
