"""A staged output is what it says: sealed manifest, right place, every file there."""

from __future__ import annotations

from pydantic import ValidationError

from trace_platform.domain.errors import Forbidden, InvalidManifest, NotFound
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.drivers.postgres.queries import Row
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME, Manifest, seal
from trace_platform.wire.task import OutputCommit


def verify_output(store: ObjectStore, task: Row, output: OutputCommit) -> Manifest:
    """The manifest, once everything it promises but the content of the files is checked."""
    _check_place(task, output)
    manifest = _read_sealed(store, output.location)
    claimed = (output.partition_key, output.start, output.end, output.row_count)
    if claimed != (manifest.partition_key, manifest.start, manifest.end, manifest.rows):
        raise InvalidManifest(f"the completion and {output.location}{MANIFEST_NAME} disagree")
    _check_range(task, manifest)
    for file in manifest.files:
        size = store.size(output.location + file.name)
        if size != file.bytes:
            found = "is missing" if size is None else f"has {size} bytes, not {file.bytes}"
            raise InvalidManifest(f"{output.location}{file.name} {found}")
    return manifest


def _check_place(task: Row, output: OutputCommit) -> None:
    pinned = next((o for o in task["outputs"] if o["output_index"] == output.output_index), None)
    asked = (str(output.dataset_uuid), str(output.dataset_version), output.location)
    if pinned is None or asked != (
        pinned["dataset_uuid"],
        pinned["dataset_version"],
        pinned["prefix"],
    ):
        raise Forbidden(f"output {output.output_index} is not one that this attempt may commit")


def _check_range(task: Row, manifest: Manifest) -> None:
    """A commit replaces what lies within its range, so that may not reach beyond the task's own."""
    spans = [(given["start"], given["end"]) for given in task["inputs"] if "start" in given]
    if not spans:
        return
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    if manifest.start < first or manifest.end > last:
        raise Forbidden(
            f"partition {manifest.partition_key} reaches beyond the task's range {first}-{last}"
        )


def _read_sealed(store: ObjectStore, location: str) -> Manifest:
    try:
        body = store.get(location + MANIFEST_NAME)
        sealed = store.get(location + SUCCESS_NAME)
    except NotFound as error:
        raise InvalidManifest(f"the output is not finished: {error.message}") from None
    if sealed != seal(body):
        raise InvalidManifest(f"{location}{SUCCESS_NAME} does not seal the manifest beside it")
    try:
        return Manifest.model_validate_json(body)
    except ValidationError as error:
        raise InvalidManifest(
            f"{location}{MANIFEST_NAME} is not a manifest: {error.errors()[0]['msg']}"
        ) from None
