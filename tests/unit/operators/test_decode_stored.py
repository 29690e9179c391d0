"""Logs and calls by stored ABIs: in the version that is valid where a row comes from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.support.encoded_logs import (
    ALICE,
    BOB,
    POOL,
    TOKEN,
    call_data,
    log,
    logs,
    raw_log,
    transactions,
)
from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.operators.decode.call_decode import OF_TRANSACTIONS
from trace_platform.operators.decode.call_decode import Config as CallConfig
from trace_platform.operators.decode.calls import CallDecoder
from trace_platform.operators.decode.log_decode import Config
from trace_platform.operators.decode.logs import KEPT, RAW, LogDecoder
from trace_platform.wire.abi import AbiPlace, AbiSignatures, TaskAbi

V1 = "event Deposit(address indexed sender, uint256 assets)"
V2 = "event Deposit(address indexed sender, uint256 assets, uint256 fee)"
# The same topics as the first one's, with other names and another type of a name.
RENAMED = "event Deposit(address indexed assets, uint256 amount)"
VAULT, OTHER = "0x" + TOKEN.hex(), "0x" + POOL.hex()
CONFIG: dict[str, Any] = {"abis": [{"stored": "vault", "events": ["Deposit"]}], "chain_id": 1}


def said(version: str, *events: str, valid: bool = True, functions: list[str] | None = None) -> Any:
    return AbiSignatures(
        version=version, events=list(events), functions=functions or [], valid=valid
    )


def place(version: str, address: str | None, start: int = 0, end: int = MAX_BLOCK) -> AbiPlace:
    return AbiPlace(version=version, address=address, start=start, end=end)


def vault(versions: list[AbiSignatures], *places: AbiPlace) -> TaskAbi:
    return TaskAbi(name="vault", versions=versions, places=list(places))


def decoded(
    table: pa.Table, *abis: TaskAbi, **changed: Any
) -> tuple[dict[str, list[dict[str, Any]]], LogDecoder]:
    config = Config.model_validate(CONFIG | changed)
    decoder = LogDecoder(
        config.chosen(),
        abis,
        chain_id=config.chain_id,
        keeps_unknown=config.addresses is not None,
    )
    (batch,) = table.select([*KEPT.names, *RAW.names]).combine_chunks().to_batches()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in decoder.outputs}
    for output, each in decoder.decode(batch).batches:
        each.validate(full=True)
        assert each.schema == decoder.schemas[output]
        rows[decoder.outputs[output]] += each.to_pylist()
    return rows, decoder


def amounts(rows: list[dict[str, Any]]) -> list[tuple[int, str, str, str | None]]:
    found = [(r["block_number"], r["abi"], r["assets_string"], r.get("fee_string")) for r in rows]
    return sorted(found)


def test_each_log_is_decoded_by_the_version_that_is_valid_in_its_block() -> None:
    table = logs(log(V1, ALICE, 1), log(V2, ALICE, 2, 3), log(V1, ALICE, 4), per_block=1)
    abi = vault([said("v1", V1), said("v2", V2)], place("v1", VAULT, 0, 0), place("v2", VAULT, 1))
    rows, decoder = decoded(table, abi)
    assert amounts(rows["vault_deposit"]) == [(0, "v1", "1", None), (1, "v2", "2", "3")]
    # What the contract's version does not know is not looked at, as without a stored ABI.
    assert rows["undecoded"] == []
    new = [field for field in decoder.schemas[0] if field.name.startswith(("sender", "fee"))]
    assert all(field.nullable for field in new)


def test_a_contract_without_a_version_of_its_own_has_the_one_of_any() -> None:
    table = logs(log(V1, ALICE, 1, address=TOKEN), log(V2, ALICE, 2, 0, address=POOL), per_block=1)
    abi = vault([said("v1", V1), said("v2", V2)], place("v2", None), place("v1", VAULT, 0, 0))
    rows, _ = decoded(table, abi)
    assert amounts(rows["vault_deposit"]) == [(0, "v1", "1", None), (1, "v2", "2", "0")]


def test_contracts_and_chains_that_are_not_meant_are_left_alone() -> None:
    table = logs(
        log(V1, ALICE, 1, address=POOL),
        log(V1, ALICE, 2) | {"chain_id": 10},
        log(V1, ALICE, 3),
        per_block=1,
    )
    rows, _ = decoded(table, vault([said("v1", V1)], place("v1", VAULT)))
    assert amounts(rows["vault_deposit"]) == [(2, "v1", "3", None)]
    assert rows["undecoded"] == []


def test_without_any_version_there_are_no_rows_and_the_columns_of_every_log() -> None:
    rows, decoder = decoded(logs(log(V1, ALICE, 1)))
    assert rows == {"vault_deposit": [], "undecoded": []}
    assert decoder.schemas[0].names == [*KEPT.names, "abi"]


def test_a_column_keeps_its_type_whatever_later_versions_call_by_its_name() -> None:
    versions = [said("v1", V1), said("v3", RENAMED)]
    abi = vault(versions, place("v1", VAULT, 0, 0), place("v3", VAULT, 1))
    table = logs(log(V1, ALICE, 1), log(RENAMED, BOB, 2), per_block=1)
    rows, decoder = decoded(table, abi)
    first, second = rows["vault_deposit"]
    assert (first["assets_string"], first["assets"]) == ("1", None)
    assert (second["amount_string"], second["assets"].hex()) == ("2", BOB[2:])
    # One that was removed had its names all the same.
    text = "event Deposit(address indexed sender, string assets)"
    gone = vault([said("v0", text, valid=False), *versions], *abi.places)
    names = decoded(table, gone)[1].schemas[0].names
    assert "assets_2" in names
    assert "assets" not in names
    assert "assets" in decoder.schemas[0].names


def test_the_right_topic_with_another_number_of_topics_is_kept_with_its_reason() -> None:
    wrong = raw_log([log(V1, ALICE, 1)["topic0"]], b"\0" * 32)
    rows, _ = decoded(logs(wrong), vault([said("v1", V1)], place("v1", VAULT)))
    (kept,) = rows["undecoded"]
    assert (kept["event"], kept["reason"]) == ("vault_deposit", "topic_count")


def test_stored_abis_come_before_those_of_any_contract_and_static_ones_take_the_rest() -> None:
    transfer = "event Transfer(address indexed from, address indexed to, uint256 value)"
    config: dict[str, Any] = {
        "abis": ["erc20.Transfer", {"stored": "vault", "events": ["Transfer"]}]
    }
    table = logs(
        log(transfer[6:], ALICE, BOB, 1, address=TOKEN),
        log(transfer[6:], ALICE, BOB, 2, address=POOL),
    )
    rows, _ = decoded(table, vault([said("v1", transfer)], place("v1", VAULT)), **config)
    assert [row["value_string"] for row in rows["vault_transfer"]] == ["1"]
    assert [row["value_string"] for row in rows["erc20_transfer"]] == ["2"]


def test_anonymous_events_are_told_by_their_contract() -> None:
    note = "event Note(bytes32 indexed what, uint256 value) anonymous"
    config: dict[str, Any] = {"abis": [{"stored": "vault", "events": ["Note", "Deposit"]}]}
    table = logs(
        log(note, b"\x07" * 32, 5), log(V1, ALICE, 1), log(note, b"\x07" * 32, 6, address=POOL)
    )
    rows, decoder = decoded(table, vault([said("v1", note, V1)], place("v1", VAULT)), **config)
    assert [row["value_string"] for row in rows["vault_note"]] == ["5"]
    assert len(rows["vault_deposit"]) == 1
    assert decoder.by_place[0].has_anonymous


def test_with_addresses_what_no_version_knows_is_kept() -> None:
    table = logs(raw_log([b"\x09" * 32], b""), log(V1, ALICE, 1))
    abi = vault([said("v1", V1)], place("v1", VAULT))
    rows, _ = decoded(table, abi, addresses=[VAULT])
    assert [row["reason"] for row in rows["undecoded"]] == ["unknown_event"]
    assert len(rows["vault_deposit"]) == 1


def test_calls_are_decoded_by_the_version_of_the_contract_that_is_called() -> None:
    send = "function send(address to, uint256 amount)"
    table = transactions(call_data(send, BOB, 7), call_data("function other()"), to=TOKEN)
    config = CallConfig.model_validate(
        {"abis": [{"stored": "vault", "functions": ["send"]}], "chain_id": 1}
    )
    abi = vault([said("v1", functions=[send])], place("v1", VAULT))
    decoder = CallDecoder(
        config.chosen(), OF_TRANSACTIONS, [abi], chain_id=None, keeps_unknown=True
    )
    names = [*OF_TRANSACTIONS.names, "input"]
    columns = {name: table[name] for name in names if name in table.column_names}
    filled = pa.table(
        columns
        | {
            field.name: pa.nulls(table.num_rows, field.type)
            for field in OF_TRANSACTIONS
            if field.name not in columns
        }
    ).select(names)
    (batch,) = filled.combine_chunks().to_batches()
    found = decoder.decode(batch)
    rows = {decoder.outputs[n]: each.to_pylist() for n, each in found.batches}
    assert [(row["amount_string"], row["abi"]) for row in rows["vault_send"]] == [("7", "v1")]
    assert [row["reason"] for row in rows["undecoded"]] == ["unknown_function"]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"abis": [{"stored": "vault", "events": ["A"]}]}, "give `chain_id`"),
        ({"abis": [{"stored": "vault"}], "chain_id": 1}, "name the events"),
        ({"abis": [{"stored": "vault", "events": ["A", "A"]}], "chain_id": 1}, "named twice"),
        ({"abis": [{"stored": "v", "events": ["A"]}] * 2, "chain_id": 1}, "is named once"),
        ({"abis": [{"stored": "vault", "evnts": ["A"]}], "chain_id": 1}, "evnts"),
    ],
)
def test_a_config_that_is_wrong_says_what_is_missing(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Config.model_validate(config)


def test_outputs_are_known_before_any_version_is() -> None:
    config = Config.model_validate(CONFIG | {"events": ["event Ping(uint256 n)"]})
    assert config.outputs() == ("vault_deposit", "ping", "undecoded")
    assert config.columns() is None
