"""Each log becomes a row of its event, or is kept with the reason why it is of none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

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
from trace_platform.operators.decode.builtin import builtin
from trace_platform.operators.decode.call_decode import OF_TRANSACTIONS
from trace_platform.operators.decode.call_decode import Config as CallConfig
from trace_platform.operators.decode.calls import CallDecoder
from trace_platform.operators.decode.decoded import BatchDecoder, Decoded
from trace_platform.operators.decode.log_decode import Config
from trace_platform.operators.decode.logs import KEPT, RAW, LogDecoder

ERC20 = "Transfer(address indexed from, address indexed to, uint256 value)"
ERC721 = "Transfer(address indexed from, address indexed to, uint256 indexed tokenId)"
NO_INDEX = "Transfer(address from, address to, uint256 value)"


def decoded(
    table: pa.Table, **config: Any
) -> tuple[dict[str, list[dict[str, Any]]], Decoded, LogDecoder]:
    decoder = LogDecoder(Config.model_validate(config).chosen())
    found = _decode(decoder, table.select([*KEPT.names, *RAW.names]))
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in decoder.outputs}
    for output, batch in found.batches:
        batch.validate(full=True)
        rows[decoder.outputs[output]] += batch.to_pylist()
    return rows, found, decoder


def _decode(decoder: BatchDecoder, table: pa.Table) -> Decoded:
    (batch,) = table.combine_chunks().to_batches()
    found = decoder.decode(batch)
    assert sum(batch.num_rows for _, batch in found.batches) == table.num_rows, "none is lost"
    assert sum(found.counts.values()) == table.num_rows
    for output, each in found.batches:
        assert each.schema == decoder.schemas[output]
    return found


def test_the_same_first_topic_with_other_indexed_sets_is_told_apart_and_counted() -> None:
    table = logs(
        log(ERC20, ALICE, BOB, 2**256 - 1),
        log(ERC721, ALICE, BOB, 7),
        log(NO_INDEX, ALICE, BOB, 5),
        log(ERC20, BOB, ALICE, 0),
    )
    rows, found, _ = decoded(table, abis=["erc20.Transfer", "erc721.Transfer"])
    assert [row["value_string"] for row in rows["erc20_transfer"]] == [str(2**256 - 1), "0"]
    assert [row["log_index"] for row in rows["erc20_transfer"]] == [0, 1]
    assert [row["tokenId_string"] for row in rows["erc721_transfer"]] == ["7"]
    assert [(r["event"], r["reason"]) for r in rows["undecoded"]] == [
        ("erc20_transfer", "topic_count")
    ]
    assert found.counts == {
        ("erc20_transfer", ""): 2,
        ("erc721_transfer", ""): 1,
        ("erc20_transfer", "topic_count"): 1,
    }
    rows, _, _ = decoded(table, abis=["erc20.Transfer", "erc721.Transfer"], events=[NO_INDEX])
    assert [row["value_string"] for row in rows["transfer"]] == ["5"]
    assert rows["undecoded"] == []


def test_a_row_has_its_place_its_values_and_the_version_of_its_abi() -> None:
    table = logs(log(ERC20, ALICE, BOB, 10**24))
    rows, _, _ = decoded(table, abis=["erc20.Transfer"])
    given = table.to_pylist()[0]
    assert rows["erc20_transfer"] == [
        {name: given[name] for name in KEPT.names}
        | {
            "from": bytes.fromhex(ALICE[2:]),
            "to": bytes.fromhex(BOB[2:]),
            "value_binary": (10**24).to_bytes(32, "big"),
            "value_string": str(10**24),
            "value_f64": 1e24,
            "abi": builtin("erc20").version,
        }
    ]


def test_what_is_wrong_with_a_log_is_kept_with_the_log() -> None:
    right = log(ERC20, ALICE, BOB, 1)
    dirty = right["topic1"][:11] + b"\1" + right["topic1"][12:]
    faults = {
        "data_length": right | {"data": right["data"] + b"\0"},
        "dirty_padding": right | {"topic1": dirty},
        "topic_length": right | {"topic2": b"\1" * 31},
        "topic_count": right | {"topic1": None},
    }
    table = logs(right, *faults.values(), right)
    rows, _, _ = decoded(table, abis=["erc20.Transfer"])
    assert len(rows["erc20_transfer"]) == 2
    assert {row["reason"]: row["event"] for row in rows["undecoded"]} == dict.fromkeys(
        faults, "erc20_transfer"
    )
    for given, row in zip(table.to_pylist()[1:-1], sorted_by_place(rows["undecoded"]), strict=True):
        assert {name: row[name] for name in RAW.names} == {name: given[name] for name in RAW.names}


def sorted_by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["block_number"], row["log_index"]))


def test_indexed_values_that_do_not_fit_a_topic_are_their_hash() -> None:
    written = "Named(string indexed name, uint8[] indexed ids, bytes data)"
    name, ids = b"\x11" * 32, b"\x22" * 32
    rows, _, _ = decoded(logs(log(written, name, ids, b"xyz")), events=[written])
    found = rows["named"][0]
    assert (found["name"], found["ids"], found["data"]) == (name, ids, b"xyz")


def test_negative_numbers_and_nested_values_of_logs_are_exact() -> None:
    written = "E(int24 indexed tick, int256 amount, (uint256 a, string b)[] legs)"
    table = logs(log(written, -887272, -(2**255), ((2**256 - 1, "é"), (0, ""))))
    found = decoded(table, events=[written])[0]["e"][0]
    assert (found["tick"], found["amount_string"]) == (-887272, str(-(2**255)))
    assert [(leg["a_string"], leg["b"]) for leg in found["legs"]] == [
        (str(2**256 - 1), "é"),
        ("0", ""),
    ]


def test_of_chosen_contracts_every_log_is_kept_anonymous_ones_too() -> None:
    anonymous = "Note(bytes4 indexed sig, uint256 value) anonymous"
    table = logs(
        log(anonymous, b"abcd", 9, address=POOL),
        log(ERC20, ALICE, BOB, 1, address=POOL),
        raw_log([b"\x77" * 32] * 3, address=POOL),
        raw_log([], b"\1", address=POOL),
    )
    rows, _, _ = decoded(
        table, abis=["erc20.Transfer"], events=[anonymous], addresses=["0x" + POOL.hex()]
    )
    assert [row["value_string"] for row in rows["note"]] == ["9"]
    assert len(rows["erc20_transfer"]) == 1
    assert [row["reason"] for row in rows["undecoded"]] == ["unknown_event"] * 2


def test_no_logs_become_no_rows() -> None:
    decoder = LogDecoder(Config.model_validate({"abis": ["erc20"]}).chosen())
    empty = logs().select([*KEPT.names, *RAW.names])
    batch = pa.RecordBatch.from_pylist([], schema=empty.schema)
    assert decoder.decode(batch).batches == []


def test_calls_are_told_by_their_first_four_bytes_and_may_go_on_behind_their_arguments() -> None:
    chosen = CallConfig.model_validate({"abis": ["erc20"]}).chosen()
    decoder = CallDecoder(chosen, OF_TRANSACTIONS)
    right = call_data("transfer(address to, uint256 value)", ALICE, 2**256 - 1)
    table = transactions(
        right,
        right + b"tag",
        right[:-1],
        b"\xde\xad\xbe\xef",
        call_data("approve(address a, uint256 b)", BOB, 0),
    ).select([*OF_TRANSACTIONS.names, "input"])
    found = _decode(decoder, table)
    rows = {decoder.outputs[n]: batch.to_pylist() for n, batch in found.batches}
    assert [row["value_param_string"] for row in rows["erc20_transfer"]] == [str(2**256 - 1)] * 2
    assert [row["spender"] for row in rows["erc20_approve"]] == [bytes.fromhex(BOB[2:])]
    assert [(row["function"], row["reason"]) for row in rows["undecoded"]] == [
        ("erc20_transfer", "data_length"),
        (None, "unknown_function"),
    ]
    assert rows["erc20_transfer"][0]["to_address"] == TOKEN
