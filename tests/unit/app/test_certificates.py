from __future__ import annotations

import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trace_platform.drivers.lite.certificates import Certificates, ensure_certificates


def handshake(files: Certificates, name: str) -> None:
    """A TLS connection to ourselves, verified as strictly as Python can."""
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(files.server, files.key)
    client_side = ssl.create_default_context(cafile=str(files.ca))
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def answer() -> None:
        try:
            server_side.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    server = threading.Thread(target=answer)
    server.start()
    try:
        client_side.wrap_socket(ours, server_hostname=name).close()
    finally:
        ours.close()
        server.join()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_clients_that_trust_the_ca_connect(tmp_path: Path, name: str) -> None:
    handshake(ensure_certificates(tmp_path), name)


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ensure_certificates(tmp_path), "example.org")


def test_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "tls")
    for key in (files.key, files.ca.with_name("ca.key")):
        assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    ensure_certificates(tmp_path)
    before = snapshot(tmp_path)
    ensure_certificates(tmp_path)
    assert snapshot(tmp_path) == before


def test_the_server_certificate_is_renewed_in_time_under_the_same_ca(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    before = snapshot(tmp_path)
    ensure_certificates(tmp_path, now=datetime.now(UTC) + timedelta(days=360))
    assert snapshot(tmp_path) == before
    ensure_certificates(tmp_path, now=datetime.now(UTC) + timedelta(days=370))
    assert files.ca.read_bytes() == before["ca.pem"]
    assert files.server.read_bytes() != before["server.pem"]


def test_an_old_ca_is_replaced_with_all_it_signed(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, now=datetime.now(UTC) - timedelta(days=3640))
    before = snapshot(tmp_path)
    files = ensure_certificates(tmp_path)
    assert files.ca.read_bytes() != before["ca.pem"]
    handshake(files, "localhost")


@pytest.mark.parametrize("damaged", ["ca.pem", "ca.key", "server.pem", "server.key"])
def test_a_file_lost_or_cut_short_is_mended(tmp_path: Path, damaged: str) -> None:
    files = ensure_certificates(tmp_path)
    (tmp_path / damaged).write_bytes((tmp_path / damaged).read_bytes()[:40])
    handshake(ensure_certificates(tmp_path), "localhost")
    (tmp_path / damaged).unlink()
    assert ensure_certificates(tmp_path) == files
    handshake(files, "localhost")


def test_a_key_that_does_not_fit_its_certificate_is_replaced(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "a")
    other = ensure_certificates(tmp_path / "b")
    files.key.write_bytes(other.key.read_bytes())
    handshake(ensure_certificates(tmp_path / "a"), "localhost")


def test_starters_at_the_same_time_agree(tmp_path: Path) -> None:
    def start(_: int) -> bytes:
        return ensure_certificates(tmp_path).server.read_bytes()

    with ThreadPoolExecutor(4) as starters:
        assert len(set(starters.map(start, range(4)))) == 1
