"""The console's files: what is served, how it is kept by browsers, and what is no file of it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from trace_platform.gateway.console_files import NONCE, ConsoleFiles

INDEX = b"<html><meta name='csp-nonce' content='%s'>" % NONCE
SCRIPT = b"console.log(1)" * 100


@pytest.fixture
def build(tmp_path: Path) -> Path:
    folder = tmp_path / "build"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "assets" / "main-abc.js").write_bytes(SCRIPT)
    (folder / "icon.svg").write_bytes(b"<svg/>")
    (tmp_path / "secret").write_text("secret")
    (folder / "assets" / "link.js").symlink_to(tmp_path / "secret")
    return folder


def _get(build: Path, path: str, **headers: str) -> tuple[int, bytes, Headers] | None:
    found = ConsoleFiles(build).answer(path, Headers(headers))
    return found and (found.status_code, bytes(found.body), Headers(raw=found.raw_headers))


def test_a_route_of_the_client_is_its_index_with_a_nonce_of_its_own(build: Path) -> None:
    nonces = set()
    for path in ("/", "/query", "/datasets/chain.blocks", "/index.html"):
        status, body, headers = _get(build, path) or (0, b"", Headers())
        assert status == 200
        assert NONCE not in body
        nonce = body.split(b"'")[3].decode()
        assert f"'nonce-{nonce}'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        nonces.add(nonce)
    assert len(nonces) == 4


def test_files_with_a_hash_in_their_name_are_kept_for_ever(build: Path) -> None:
    status, body, headers = _get(build, "/assets/main-abc.js") or (0, b"", Headers())
    assert (status, body) == (200, SCRIPT)
    assert "immutable" in headers["cache-control"]
    assert headers["content-type"].startswith(("text/javascript", "application/javascript"))
    _, packed, told = _get(build, "/assets/main-abc.js", **{"accept-encoding": "gzip"}) or (
        *(0, b""),
        Headers(),
    )
    assert told["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == SCRIPT
    again = _get(build, "/icon.svg")
    assert again is not None
    assert again[2]["cache-control"] == "no-cache"
    unchanged = _get(build, "/icon.svg", **{"if-none-match": again[2]["etag"]})
    assert unchanged is not None
    assert unchanged[:2] == (304, b"")


def test_no_path_leads_out_of_the_build(build: Path) -> None:
    for path in (
        "/assets/link.js",
        "/assets/../../secret",
        "/assets/%2e%2e/%2e%2e/secret",
        "/assets/none.js",
        "/secret.txt",
    ):
        assert _get(build, path) is None, path


def test_without_a_build_a_page_says_how_to_make_one(tmp_path: Path) -> None:
    status, body, _ = _get(tmp_path / "none", "/") or (0, b"", Headers())
    assert status == 200
    assert b"The console is not part of this installation" in body


def test_a_new_build_is_served_without_a_restart(build: Path) -> None:
    files = ConsoleFiles(build)
    assert files.answer("/assets/new.js", Headers()) is None
    (build / "assets" / "new.js").write_bytes(b"new")
    (build / "new.html").write_bytes(INDEX)
    (build / "new.html").replace(build / "index.html")
    found = files.answer("/assets/new.js", Headers())
    assert found is not None
    assert found.body == b"new"


def test_a_path_of_the_client_shows_no_file_of_the_disk(build: Path) -> None:
    for path in ("/a/../../secret", "/etc/passwd.txt", "/datasets/..%2f..%2fsecret"):
        found = _get(build, path)
        assert found is not None
        assert b"csp-nonce" in found[1], path
