"""The folders of the object store in order, a piece at a time: where attempts, deliveries and logs
lie. Nothing is decided here."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from pyarrow.fs import FileInfo, FileSelector, FileType

from trace_platform.domain.errors import InvalidPrefix
from trace_platform.domain.prefix import PLACES, canonical_prefix
from trace_platform.drivers.object_store import ObjectStore

# What is below each folder; "*" is any name, and an empty tree the end: a folder that is yielded.
_Tree = Mapping[str, Any]


def _tree(layouts: Iterable[str]) -> _Tree:
    tree: dict[str, Any] = {}
    for layout in layouts:
        below = tree
        for segment in layout.removeprefix("s3://{bucket}/").removesuffix("/").split("/"):
            below = below.setdefault("*" if segment.startswith("{") else segment, {})
    return tree


_TREE = _tree(kind.layout for kind in PLACES)


class StoredFile(NamedTuple):
    uri: str
    # Below the folder that was listed.
    name: str
    bytes: int
    modified_at: datetime | None


def walk(
    store: ObjectStore, bucket: str, scratch_bucket: str, after: str, limit: int
) -> tuple[list[str], str]:
    """The next places after one of an earlier piece, and where to go on: "" at the end.

    A place is a folder (it ends in a slash) that one task, delivery or log has to itself, or
    whatever else lies where only such folders should.
    """
    roots: list[tuple[str, _Tree]] = [
        (f"s3://{bucket}/org/", _TREE["org"]),
        (f"s3://{scratch_bucket}/buffers/", _TREE["buffers"]),
    ]
    begun = next((n for n, (root, _) in enumerate(roots) if after.startswith(root)), 0)
    every = itertools.chain.from_iterable(
        _descend(store, root, tree, after if after.startswith(root) else "")
        for root, tree in roots[begun:]
    )
    places = list(itertools.islice(every, limit))
    return places, places[-1] if len(places) == limit else ""


def files_below(store: ObjectStore, place: str) -> list[StoredFile]:
    """Every file of a folder, also what was left half-written."""
    filesystem, path = store.filesystem(place)
    base = path.rstrip("/")
    selector = FileSelector(base, recursive=True, allow_not_found=True)
    return [
        StoredFile(place + name, name, info.size or 0, info.mtime)
        for info in filesystem.get_file_info(selector)
        if info.type == FileType.File
        for name in [info.path[len(base) + 1 :]]
    ]


def delete_file(store: ObjectStore, place: str, file: StoredFile) -> None:
    """One file of a folder that others stay in. Gone already is no error."""
    # By its folder: what was left half-written has no canonical name.
    filesystem, path = store.filesystem(place)
    with suppress(FileNotFoundError):
        filesystem.delete_file(f"{path.rstrip('/')}/{file.uri.removeprefix(place)}")


def _descend(store: ObjectStore, folder: str, tree: _Tree, after: str) -> Iterator[str]:
    if not tree:
        yield folder
        return
    for entry in sorted(_entries(store, folder), key=_order):
        child = folder + _order(entry)
        if child <= after and not (after.startswith(child) and after != child):
            continue
        below = tree.get(entry.base_name, tree.get("*"))
        if entry.type != FileType.Directory or not _is_canonical(child):
            yield child
        elif below is not None:  # else it is another's
            yield from _descend(store, child, below, after)


def _entries(store: ObjectStore, folder: str) -> list[FileInfo]:
    filesystem, path = store.filesystem(folder)
    selector = FileSelector(path.rstrip("/"), allow_not_found=True)
    found: list[FileInfo] = filesystem.get_file_info(selector)
    return found


def _order(entry: FileInfo) -> str:
    """As the places below sort."""
    name: str = entry.base_name
    return f"{name}/" if entry.type == FileType.Directory else name


def _is_canonical(place: str) -> bool:
    try:
        canonical_prefix(place)
    except InvalidPrefix:
        return False
    return True
