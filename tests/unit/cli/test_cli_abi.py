"""`trace abi`: what is typed wrong is told before anybody is asked, and what changes is said."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer

from trace_platform.app.api_client import abi_client, backfill_client
from trace_platform.cli import abi as commands
from trace_platform.cli import abi_guess, abi_redo
from trace_platform.domain.errors import BadInput, TaskFailed, TraceError
from trace_platform.wire.abi import AbiChanged, AbiGuesses, AbiRedo, AddAbi, GuessAbi
from trace_platform.wire.invalidation import InvalidationList, InvalidationStatus

VAULT = "0x" + "AA" * 20
REDO = AbiRedo(
    job="flow.decode", dataset="deposits", start=1_500, end=2_999, invalidation_id=UUID(int=7)
)
CHANGED = AbiChanged(name="vault", version="1f0c1d8a77c2", new=True, redo=[REDO])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vault.abi"
    path.write_text("event Deposit(uint256 assets)")
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AddAbi]:
    """What the Dispatcher is asked."""
    found: list[AddAbi] = []

    def add(_: Any, given: AddAbi) -> AbiChanged:
        found.append(given)
        return CHANGED

    monkeypatch.setattr(abi_client, "add", add)
    return found


def test_an_added_version_says_what_is_decoded_again(
    file: Path, asked: list[AddAbi], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.add("vault", file, "Ethereum", VAULT, 1_500, home=tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        f"vault 1f0c1d8a77c2 added: {VAULT.lower()} on chain 1 from block 1,500",
        "flow.decode decodes blocks 1,500 to 2,999 again",
    ]
    (only,) = asked
    assert (only.chain_id, only.address, only.from_block) == (1, VAULT.lower(), 1_500)
    commands.add("vault", file, "1", home=tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out)["redo"][0]["job"] == "flow.decode"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"chain": "etherium"}, "did you mean ethereum?"),
        ({"chain": "0"}, "give its id"),
        ({"address": "0x12"}, "0x and 40 hex digits"),
        ({"name": "Vault"}, "a letter first"),
        ({"file": Path("/nowhere/vault.json")}, "cannot read"),
    ],
)
def test_what_is_typed_wrong_is_told_with_what_would_be_right(
    file: Path, asked: list[AddAbi], changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as raised:
        commands.add(**({"name": "vault", "file": file, "chain": "1"} | changed))
    assert said in _whole(raised.value)
    assert asked == []


def _whole(error: TraceError) -> str:
    return f"{error.message} {error.hint}"


def test_a_version_is_named_by_hex_digits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no version"):
        commands.remove("vault", "v2", home=tmp_path, yes=True)


def test_a_proxy_has_an_implementation_or_is_taken_back(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="give one of"):
        commands.proxy(VAULT, "1", home=tmp_path)


def test_a_guess_is_about_a_signature_an_id_or_a_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[GuessAbi] = []

    def guess(_: Any, given: GuessAbi) -> AbiGuesses:
        asked.append(given)
        return AbiGuesses(entries=[], guesses=[], unknown=given.seen)

    monkeypatch.setattr(abi_client, "guess", guess)
    for what in ("Transfer(address)", "0xa9059cbb", str(file)):
        abi_guess.guess(what, home=tmp_path)
    assert [each.text for each in asked] == ["Transfer(address)", None, file.read_text()]
    assert [each.id for each in asked[1].seen] == ["0xa9059cbb"]
    with pytest.raises(typer.BadParameter, match="give one of"):
        abi_guess.guess(home=tmp_path)


def _status(**changed: Any) -> InvalidationStatus:
    now = datetime.now(UTC)
    return InvalidationStatus(
        **{
            "invalidation_id": REDO.invalidation_id,
            "dataset": "deposits",
            "dataset_uuid": UUID(int=1),
            "dataset_version": UUID(int=2),
            "scope": "row_range",
            "partition_key": None,
            "start": 1_500,
            "end": 2_999,
            "remade": False,
            "reason": "ABI vault was added",
            "cause_task_id": None,
            "state": "open",
            "tasks": 3,
            "tasks_done": 1,
            "failed_task_id": None,
            "merged_into": None,
            "note": None,
            "created_at": now,
            "routed_at": now,
            "processed_at": None,
            **changed,
        }
    )


def _shown(monkeypatch: pytest.MonkeyPatch, *states: InvalidationStatus) -> list[str]:
    """One after the other, as the Dispatcher is asked."""
    left, asked = list(states), []

    def listing(_: Any, dataset: str, *_limit: Any, **_open: Any) -> InvalidationList:
        asked.append(dataset)
        return InvalidationList(invalidations=[left.pop(0)])

    monkeypatch.setattr(backfill_client, "invalidations", listing)
    monkeypatch.setattr(abi_redo.time, "sleep", lambda _: None)
    return asked


def test_waiting_ends_when_all_of_it_is_decoded_again(
    file: Path, asked: list[AddAbi], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = _shown(monkeypatch, _status(), _status(tasks_done=3, state="processed"))
    commands.add("vault", file, "1", home=tmp_path, wait=True)
    assert looked == ["deposits"] * 2
    assert len(asked) == 1


def test_waiting_ends_with_the_task_that_failed(
    file: Path, asked: list[AddAbi], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _shown(monkeypatch, _status(failed_task_id=UUID(int=9)))
    with pytest.raises(TaskFailed) as raised:
        commands.add("vault", file, "1", home=tmp_path, wait=True)
    assert str(UUID(int=9)) in (raised.value.hint or "")
    assert len(asked) == 1
