"""The stored ABIs that a DAG names, before it is planned or deployed: whether they are there, with
these entries, and which columns they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from trace_platform.dag.check.check_dag import CheckedDag
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.read.dag_yaml import DagError, Path, error_at, invalid_dag
from trace_platform.dispatcher.abis.pin_abis import whole_abi
from trace_platform.domain.alike import instead
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.operators.decode.config import DecodeConfig
from trace_platform.operators.decode.stored_names import StoredNames, stored_names
from trace_platform.operators.registry import load
from trace_platform.state import abis
from trace_platform.wire.abi import TaskAbi
from trace_platform.wire.manifest import ManifestColumn

_SHOWN = 20
# Where a job names a stored ABI, and what that is.
Named = tuple[Path, StoredNames]


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What stored ABIs make of one output: its columns, and what of the input each is read from."""

    columns: list[ManifestColumn]
    made_of: dict[str, list[str]]


async def refuse_unknown_abis(tx: Tx, org_id: UUID, checked: CheckedDag) -> None:
    """Raise InvalidDag, with the line, for a stored ABI, or an entry of one, that there is not."""
    errors: list[DagError] = []
    for path, named in _named(checked.dag):
        found = await whole_abi(tx, org_id, named)
        if found.places or any(said.valid for said in found.versions):
            said = [(path, each) for path, each in _entry_problems(path, named, found)]
        else:
            said = [((*path, "stored"), await _unknown(tx, org_id, named))]
        errors += [error_at(checked.root, at, each) for at, each in said]
    if errors:
        raise invalid_dag(checked.file, errors)


async def stored_outputs(tx: Tx, org_id: UUID, dag: Dag) -> dict[tuple[str, int], StoredOutput]:
    """By job and output, of jobs that decode by stored ABIs."""
    found: dict[tuple[str, int], StoredOutput] = {}
    for job in dag.jobs:
        named = stored_names(job.operator, job.config)
        if not named or job.operator is None:
            continue
        given = [await whole_abi(tx, org_id, each) for each in named]
        config = load(job.operator).Config.model_validate(job.config)
        assert isinstance(config, DecodeConfig), "only these name stored ABIs"
        made = zip(config.columns_by(given), config.made_of_by(given), strict=True)
        for output, (columns, made_of) in enumerate(made):
            found[job.name, output] = StoredOutput(columns, made_of)
    return found


def _named(dag: Dag) -> Iterator[Named]:
    for n, job in enumerate(dag.jobs):
        for named in stored_names(job.operator, job.config):
            yield ("jobs", n, "config", "abis", named.index), named


async def _unknown(tx: Tx, org_id: UUID, named: StoredNames) -> str:
    versions = await abis.versions(tx, org_id, None, named.chain_id)
    names = sorted({each.name for each in versions})
    cure = instead(named.abi, names, _SHOWN, f"chain {named.chain_id} has")
    return f"no ABI {named.abi!r} is stored for chain {named.chain_id}; {cure}; or trace abi add"


def _entry_problems(path: Path, named: StoredNames, found: TaskAbi) -> Iterator[tuple[Path, str]]:
    known = {name for said in found.versions if said.valid for name in _entries(said, named.kind)}
    for place, name in enumerate(named.entries):
        if name not in known:
            said = f"no version of ABI {named.abi} has {name!r} among its {named.kind}"
            yield (*path, named.kind, place), f"{said}: trace abi show {named.abi}"


def _entries(said: object, kind: str) -> Sequence[str]:
    texts: Sequence[str] = getattr(said, kind)
    return [text.partition("(")[0].rpartition(" ")[2] for text in texts]
