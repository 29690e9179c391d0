"""Strangers' SQL: every attack is refused with a reason, and the next layer holds without the gate.

Two canaries lie beside the data, a file with a secret and a port where somebody listens. Nothing
of the corpus reads the one or calls the other.
"""

from __future__ import annotations

import hashlib
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.security import attack_corpus
from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidQuery
from trace_platform.query.child import engine
from trace_platform.query.protocol.messages import Limits, Relation
from trace_platform.sql import gate

SECRET = "canary-7f3a"
GRANTED = {"blocks"}
LIMITS = Limits(timeout_s=1, memory_mb=128, spill_mb=1, threads=1)

REFUSED = [
    pytest.param(attack, id=f"{kind} {number}")
    for kind, attacks in attack_corpus.REFUSED.items()
    for number, attack in enumerate(attacks)
]
OF_OTHERS = [
    pytest.param(attack, id=f"relations of others {number}")
    for number, attack in enumerate(attack_corpus.RELATIONS_OF_OTHERS)
]
# These must fail in the locked engine too, whatever they would have told.
FAILING_KINDS = {"files", "files inside other things", "urls", "attaches", "extensions"}
REACHING_OUT = {
    attack
    for kind in FAILING_KINDS
    for attack in attack_corpus.REFUSED[kind]
    if "{canary}" in attack or "{folder}" in attack or "{port}" in attack
}


@dataclass(frozen=True)
class Ground:
    """The data, and the canaries beside it."""

    folder: Path
    listener: socket.socket = field(repr=False)

    def sql(self, attack: str) -> str:
        for name, value in {
            "folder": self.folder,
            "file": self.folder / "blocks.parquet",
            "canary": self.folder / "canary.csv",
            "port": self.listener.getsockname()[1],
        }.items():
            attack = attack.replace(f"{{{name}}}", str(value))
        return attack.replace("{{", "{").replace("}}", "}")

    def state(self) -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            for path in sorted(self.folder.rglob("*"))
        }

    def was_called(self) -> bool:
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def _ground(folder: Path) -> Ground:
    rows = pa.table({"n": pa.array([1, 2, 3], pa.uint64())})
    pq.write_table(rows, folder / "blocks.parquet")
    pq.write_table(pa.table({"secret": [SECRET]}), folder / "other.parquet")
    (folder / "canary.csv").write_text(f"secret\n{SECRET}\n")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return Ground(folder, listener)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """At the end of everything both canaries are as they were."""
    made = _ground(tmp_path_factory.mktemp("objects"))
    before = made.state()
    yield made
    assert made.state() == before
    assert not made.was_called()
    made.listener.close()


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        yield connection


def run_locked(ground: Ground, sql: str, spill: Path) -> str:
    """What a statement tells that never met the gate: its rows, or its error."""
    granted = Relation(view="blocks", files=[str(ground.folder / "blocks.parquet")])
    with engine.open_database(LIMITS, str(spill)) as connection:
        engine.lock(connection, [granted])
        try:
            return str(connection.execute(sql).fetchall())
        except (duckdb.Error, UnicodeError, RuntimeError) as error:
            return f"refused: {error}"


def test_the_corpus_is_large_and_has_no_attack_twice() -> None:
    attacks = [attack for kind in attack_corpus.REFUSED.values() for attack in kind]
    attacks += attack_corpus.RELATIONS_OF_OTHERS
    assert len(set(attacks)) == len(attacks) >= 150


def test_the_canaries_would_notice(tmp_path: Path) -> None:
    ground = _ground(tmp_path)
    before = ground.state()
    with duckdb.connect(":memory:") as unlocked:
        assert SECRET in str(unlocked.execute(ground.sql("from '{canary}'")).fetchall())
        unlocked.execute(ground.sql("copy (select 1) to '{folder}/new.csv'"))
    assert ground.state() != before
    assert not ground.was_called()
    socket.create_connection(ground.listener.getsockname()).close()
    assert ground.was_called()
    ground.listener.close()


@corpus("attack", REFUSED)
def test_the_gate_refuses_with_a_reason(
    parser: duckdb.DuckDBPyConnection, ground: Ground, attack: str
) -> None:
    with pytest.raises(InvalidQuery) as refused:
        gate.check(parser, ground.sql(attack))
    assert refused.value.message
    assert SECRET not in refused.value.message


@corpus("attack", OF_OTHERS)
def test_a_relation_of_others_is_reported_to_whoever_grants(
    parser: duckdb.DuckDBPyConnection, ground: Ground, attack: str
) -> None:
    found = gate.check(parser, ground.sql(attack)).references
    assert {reference.name for reference in found} - GRANTED


@corpus("attack", REFUSED + OF_OTHERS)
def test_the_locked_engine_holds_when_the_gate_is_bypassed(
    ground: Ground, tmp_path: Path, attack: str
) -> None:
    before = ground.state()
    told = run_locked(ground, ground.sql(attack), tmp_path)
    assert SECRET not in told
    assert told.startswith("refused: ") or attack not in REACHING_OUT
    assert ground.state() == before
    assert not ground.was_called()


@pytest.mark.parametrize("kind", list(attack_corpus.REFUSED))
def test_no_spelling_of_an_attack_passes(
    parser: duckdb.DuckDBPyConnection, ground: Ground, kind: str
) -> None:
    chance = random.Random(f"spellings of {kind}")
    for attack in attack_corpus.REFUSED[kind]:
        for _ in range(4):
            spelling = respelled(ground.sql(attack), chance)
            # Other spaces can make another statement of it, but never one that is granted.
            assert reported(parser, spelling) - GRANTED, spelling


def reported(parser: duckdb.DuckDBPyConnection, sql: str) -> set[str]:
    """The relations that it reads; one that nobody grants when the gate refuses it."""
    try:
        return {reference.name for reference in gate.check(parser, sql).references}
    except InvalidQuery as refused:
        return {refused.message}


def respelled(sql: str, chance: random.Random) -> str:
    """The same tokens, with other spaces, comments and letters between and in them."""
    written, kinds = sql.encode(), duckdb.token_type
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(written)]
    said = []
    for (start, kind), end in zip(tokens, ends, strict=True):
        text = written[start:end].decode()
        if kind == kinds.comment:
            text = text.rstrip(" ") + "\n"
        elif kind == kinds.keyword or (kind == kinds.identifier and '"' not in text):
            text = "".join(chance.choice((str.lower, str.upper))(letter) for letter in text)
        said += [text, chance.choice(("", " ", "\t", "\n", "/**/", " /* ; ' */ ", " -- '\n"))]
    return "".join(said)
