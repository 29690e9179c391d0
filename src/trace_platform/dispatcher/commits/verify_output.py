"""A staged output is what it says: sealed manifest, right place, every file there."""

from __future__ import annotations

from pydantic import ValidationError

from trace_platform.dispatcher.tasks.task_payload import output_prefix
from trace_platform.dispatcher.tasks.trust import Trusts, refuse_untrusted
from trace_platform.domain.errors import Forbidden, InvalidManifest, NotFound
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.state.task_rows import HeldTask, Pinned
from trace_platform.wire.manifest import MANIFEST_NAME, SUCCESS_NAME, Manifest, seal
from trace_platform.wire.task import OutputCommit

_TABLE = "postgres_table:"


def is_table(output: OutputCommit) -> bool:
    return output.location.startswith(_TABLE)


def check_table(task: HeldTask, output: OutputCommit, trusts: Trusts) -> None:
    """A dataset that is a table of Postgres data: its own table, up to a cursor."""
    refuse_untrusted(task, trusts, "write tables of Postgres data")
    _check_place(task, output, f"{_TABLE}dataset_{output.dataset_uuid}")
    if output.cursor is None:
        raise InvalidManifest(f"output {output.output_index} is a table and names no cursor")


def verify_output(
    store: ObjectStore, bucket: str, task: HeldTask, output: OutputCommit
) -> Manifest:
    """The manifest, once everything it promises but the content of the files is checked."""
    pinned = _pinned(task, output)
    _check_place(task, output, output_prefix(bucket, task, pinned) if pinned else "")
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


def _pinned(task: HeldTask, output: OutputCommit) -> Pinned | None:
    return next((o for o in task.outputs if o["output_index"] == output.output_index), None)


def _check_place(task: HeldTask, output: OutputCommit, place: str) -> None:
    pinned = _pinned(task, output)
    asked = (str(output.dataset_uuid), str(output.dataset_version), output.location)
    if pinned is None or asked != (pinned["dataset_uuid"], pinned["dataset_version"], place):
        raise Forbidden(f"output {output.output_index} is not one that this attempt may commit")
    if pinned.get("shared"):
        raise Forbidden(
            f"output {output.output_index} ({pinned['name']}) is buffered: several jobs write the "
            "dataset, and what one commits would take the place of another's",
            hint="publish its rows in batches: POST /v1/task/buffer-publish",
        )


def _check_range(task: HeldTask, manifest: Manifest) -> None:
    """A commit replaces what lies within its range, so that may not reach beyond the task's own."""
    if manifest.start is None or manifest.end is None:
        _check_key(task, manifest)
        return
    spans = [(given["start"], given["end"]) for given in task.inputs if "start" in given]
    if not spans:
        return
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    if manifest.start < first or manifest.end > last:
        raise Forbidden(
            f"partition {manifest.partition_key} reaches beyond the task's range {first}-{last}"
        )


def _check_key(task: HeldTask, manifest: Manifest) -> None:
    named = [given for given in task.inputs if "partition_key" in given]
    keys = [given["partition_key"] for given in named if "start" not in given]
    # What ranges woke is committed as a range: by its name alone it would lie beside others.
    if named and manifest.partition_key not in keys:
        raise Forbidden(f"partition {manifest.partition_key} is none that the task was woken by")


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
