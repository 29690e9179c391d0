"""A dataset by its name, and a generation of it, or an error that says which there are."""

from __future__ import annotations

from uuid import UUID

from trace_platform.dispatcher.datasets.survey_datasets import dataset_label
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import BadInput, UnknownDataset
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state import datasets, query_datasets, registry
from trace_platform.state.datasets import Dataset
from trace_platform.state.registry import DatasetGeneration

# Names that an error shows, and those that are looked through for one that is alike.
SHOWN, MOST_NAMES = 20, 10_000


async def find_dataset(tx: Tx, org_id: UUID, named: str) -> Dataset:
    """By published name, by uuid, or as DAG.JOB and DAG.JOB.OUTPUT."""
    found = await datasets.find(tx, org_id, named)
    if found is None:
        known = await datasets.names(tx, org_id, MOST_NAMES)
        published = instead(named, known, SHOWN, "published")
        raise UnknownDataset(
            f"there is no dataset '{named}'",
            hint=f"{published}; or name an output as DAG.JOB or DAG.JOB.OUTPUT",
        )
    return found


async def find_version(tx: Tx, org_id: UUID, named: str, at: str | None) -> tuple[Dataset, UUID]:
    """The dataset, and its current generation unless `at` names another."""
    dataset = await find_dataset(tx, org_id, named)
    if at is None:
        return dataset, dataset.current_version
    return dataset, (await find_generation(tx, dataset, at)).dataset_version


async def find_files(
    tx: Tx, org_id: UUID, named: str, at: str | None
) -> tuple[Dataset, UUID, str | None]:
    """As `find_version`, of a table its cold part, if it has one; and then what the table is
    called."""
    dataset, version = await find_version(tx, org_id, named, at)
    cold = (await query_datasets.cold_parts(tx, [version])).get(version)
    if cold is None:
        return dataset, version, None
    files = await find_dataset(tx, org_id, str(cold.cold_uuid))
    return files, cold.cold_version, dataset_label(dataset)


async def find_generation(tx: Tx, dataset: Dataset, named: str) -> DatasetGeneration:
    """A row of `registry.versions`: by its version or the beginning of it, or by its generation."""
    rows = await registry.versions(tx, dataset.uuid)
    asked = named.lower()
    found = [
        row
        for row in rows
        if str(row.dataset_version).startswith(asked) or str(row.generation_id) == asked
    ]
    label = dataset_label(dataset)
    if not found:
        raise UnknownDataset(
            f"'{label}' has no generation {named}", hint=f"trace datasets versions {label}"
        )
    if len(found) > 1:
        raise BadInput(
            f"{len(found)} generations of '{label}' begin with {named}", hint="give more of the id"
        )
    return found[0]
