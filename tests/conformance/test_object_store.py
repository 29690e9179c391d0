"""Every ObjectStore keeps these promises."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_platform.domain.errors import DiskFull, InvalidPrefix, NotFound
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.object_store import ObjectStore

STORES: dict[str, Callable[[Path], ObjectStore]] = {"lite": lambda path: LocalStore(str(path))}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return STORES[request.param](tmp_path)


def test_what_is_put_can_be_got(store: ObjectStore) -> None:
    store.put("s3://bucket/a/b", b"one")
    store.put("s3://bucket/a/b", b"two")
    assert store.get("s3://bucket/a/b") == b"two"
    assert store.size("s3://bucket/a/b") == 3


def test_what_is_missing_is_not_found(store: ObjectStore) -> None:
    assert store.size("s3://bucket/none") is None
    with pytest.raises(NotFound):
        store.get("s3://bucket/none")


def test_a_listing_is_the_prefix_and_nothing_beside_it(store: ObjectStore) -> None:
    for key in ("org1/x", "org1/deep/y", "org10/z", "org2/x"):
        store.put(f"s3://bucket/{key}", b"")
    assert list(store.list("s3://bucket/org1/")) == [
        "s3://bucket/org1/deep/y",
        "s3://bucket/org1/x",
    ]
    assert list(store.list("s3://bucket/none/")) == []


def test_what_is_deleted_is_the_prefix_and_nothing_beside_it(store: ObjectStore) -> None:
    for key in ("org1/x", "org1/deep/y", "org10/z", "org2/x"):
        store.put(f"s3://bucket/{key}", b"")
    assert store.delete_prefix("s3://bucket/org1/") == 2
    assert list(store.list("s3://bucket/org1/")) == []
    assert store.size("s3://bucket/org10/z") == 0
    assert store.size("s3://bucket/org2/x") == 0


def test_deleting_what_is_gone_is_no_error_and_the_place_can_be_used_again(
    store: ObjectStore,
) -> None:
    assert store.delete_prefix("s3://bucket/none/") == 0
    store.put("s3://bucket/a/b", b"one")
    assert store.delete_prefix("s3://bucket/a/") == 1
    assert store.delete_prefix("s3://bucket/a/") == 0
    store.put("s3://bucket/a/b", b"two")
    assert store.get("s3://bucket/a/b") == b"two"


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/a/../b", "s3://bucket/../../etc/passwd", "s3://bucket//a", "s3://bucket/",
        "s3:///a", "file:///etc/passwd", "s3://bucket/a*", "s3://bucket/%2e%2e/a", "bucket/a",
        "s3://BUCKET/a", "s3://bucket/a/./b", "s3://bucket/a\x00b", "s3://bucket/ä", "s3://b/a",
        "s3://bucket/a b", "s3://bucket/${aws:username}", "s3://bucket/.hidden", "s3://../a",
    ],
)  # fmt: skip
def test_a_uri_that_is_not_canonical_is_refused(store: ObjectStore, uri: str) -> None:
    with pytest.raises(InvalidPrefix):
        store.put(uri, b"")
    with pytest.raises(InvalidPrefix):
        store.get(uri)


def test_a_prefix_without_its_slash_is_refused(store: ObjectStore) -> None:
    with pytest.raises(InvalidPrefix):
        list(store.list("s3://bucket/org1"))
    with pytest.raises(InvalidPrefix):
        store.delete_prefix("s3://bucket/org1")


def test_a_copy_sees_the_same_objects(store: ObjectStore) -> None:
    store.put("s3://bucket/a", b"x")
    assert pickle.loads(pickle.dumps(store)).get("s3://bucket/a") == b"x"


def test_arrow_reads_what_was_put(store: ObjectStore) -> None:
    store.put("s3://bucket/a/b", b"bytes")
    filesystem, path = store.filesystem("s3://bucket/a/b")
    with filesystem.open_input_stream(path) as stream:
        assert stream.read() == b"bytes"


def test_a_full_disk_is_named_and_leaves_the_old_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path))
    store.put("s3://bucket/a", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFull):
        store.put("s3://bucket/a", b"new")
    assert store.get("s3://bucket/a") == b"old"
    assert [p.name for p in (tmp_path / "bucket").iterdir()] == ["a"]
