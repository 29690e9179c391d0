"""What is written as an ABI is read as Solidity means it, and what is wrong is named."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trace_platform.operators.decode import builtin
from trace_platform.operators.decode.abi import Abi, Event
from trace_platform.operators.decode.abi_json import events_of, functions_of
from trace_platform.operators.decode.abi_text import parse_event, parse_function
from trace_platform.operators.decode.call_decode import Config as CallConfig
from trace_platform.operators.decode.log_decode import Config as LogConfig

SWAP = (
    "event Swap(address indexed sender, (uint a, int24[2] b)[] legs, tuple(bytes x) memory last)"
    " anonymous;"
)


def test_signatures_of_real_contracts_hash_to_their_known_topics() -> None:
    known = {
        ("erc20", "Transfer"): "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        ("erc1155", "TransferBatch"): (
            "4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb"
        ),
        ("weth", "Deposit"): "e1fffcc4923d04b559f4d29a8bfc6cda04eb5b0d3c460751c2402c5c5cc9109c",
        ("uniswap_v2", "Swap"): "d78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822",
        ("uniswap_v2_factory", "PairCreated"): (
            "0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9"
        ),
        ("uniswap_v3", "Swap"): "c42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67",
        ("uniswap_v3_factory", "PoolCreated"): (
            "783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118"
        ),
        ("chainlink", "AnswerUpdated"): (
            "0559884fd3a460db3073b7fc896cc77986f16e378210ded43186175bf646fc5f"
        ),
    }
    for (abi, name), topic in known.items():
        found = {event.name: event for event in builtin.builtin(abi).events}
        assert found[name].topic0.hex() == topic, (abi, name)
    selectors = {f.name: f.selector.hex() for f in builtin.builtin("erc20").functions}
    assert selectors == {"transfer": "a9059cbb", "transferFrom": "23b872dd", "approve": "095ea7b3"}


def test_a_signature_is_read_with_tuples_arrays_and_words_of_solidity() -> None:
    event = parse_event(SWAP)
    assert event.signature == "Swap(address,(uint256,int24[2])[],(bytes))"
    assert (event.anonymous, event.topics) == (True, 1)
    function = parse_function("function f(uint a, address payable b) external returns (uint)")
    assert function.signature == "f(uint256,address)"


def test_json_and_text_say_the_same() -> None:
    entries = [
        {
            "type": "event",
            "name": "Swap",
            "anonymous": True,
            "inputs": [
                {"name": "sender", "type": "address", "indexed": True},
                {
                    "name": "legs",
                    "type": "tuple[]",
                    "components": [
                        {"name": "a", "type": "uint256"},
                        {"name": "b", "type": "int24[2]"},
                    ],
                },
                {"name": "last", "type": "tuple", "components": [{"name": "x", "type": "bytes"}]},
            ],
        },
        {"type": "function", "name": "f", "inputs": [{"name": "", "type": "uint8"}]},
        {"type": "constructor", "inputs": []},
    ]
    assert events_of(entries) == (parse_event(SWAP),)
    assert functions_of(entries) == (parse_function("f(uint8)"),)


def test_a_version_changes_with_what_is_decoded_and_not_with_the_order() -> None:
    first, second = parse_event("A(uint256 a)"), parse_event("B(uint256 a)")
    version = Abi("x", (first, second)).version
    assert Abi("y", (second, first)).version == version
    for other in ("A(uint256 b)", "A(uint256 indexed a)", "A(uint128 a)"):
        assert Abi("x", (parse_event(other), second)).version != version, other
    assert len(version) == 12


MISTAKES: list[tuple[type[LogConfig | CallConfig], dict[str, object], str]] = [
    (LogConfig, {}, "there are no events"),
    (LogConfig, {"abis": ["erc2O"]}, "did you mean 'erc20'"),
    (LogConfig, {"abis": ["erc20.Transfr"]}, "did you mean 'Transfer'"),
    (LogConfig, {"events": ["Transfer(uint7 a)"]}, "character 10: there is no type 'uint7'"),
    (LogConfig, {"events": ["Transfer(uint8 a"]}, "',' or ')' has to stand here"),
    (LogConfig, {"events": ["function f()"]}, "is no event: write 'Transfer("),
    (LogConfig, {"events": ["A(uint8 a) b"]}, "nothing can follow here"),
    (LogConfig, {"events": ["A(uint8 indexed indexed a)"]}, "one name"),
    (LogConfig, {"events": ["A(fixed128x18 a)"]}, "fixed-point"),
    (LogConfig, {"events": ["A(uint8[5000] a)"]}, "more than 4096 words"),
    (LogConfig, {"events": ["A(() a)"]}, "at least one member"),
    (LogConfig, {"events": [f"A({','.join(['uint8 indexed'] * 4)})"]}, "at most 3"),
    (LogConfig, {"events": ["A(uint8 a) anonymous"]}, "give `addresses`"),
    (
        LogConfig,
        {
            "abis": ["erc20"],
            "events": ["Transfer(address indexed a, address b, uint256 indexed c)"],
        },
        "no log tells them apart",
    ),
    (LogConfig, {"abis": ["erc20"], "addresses": ["0x12"]}, "pattern"),
    (LogConfig, {"abis": [{"name": "x", "abi": [{"type": "event"}]}]}, "no name"),
    # Columns are called by names: SQL reads `a.b` as a field, and no reader a quote.
    *(
        (
            LogConfig,
            {"abis": [{"name": "x", "abi": [{"type": "event", "name": event, "inputs": inputs}]}]},
            "is no name of Solidity",
        )
        for event, inputs in (
            ("E", [{"name": "a.b", "type": "uint8"}]),
            ("E", [{"name": "a`", "type": "uint8"}]),
            ("E", [{"name": "\u0130", "type": "uint8"}]),
            (
                "E",
                [{"name": "t", "type": "tuple", "components": [{"name": " ", "type": "bool"}]}],
            ),
            ("E F", []),
        )
    ),
    (CallConfig, {"abis": ["chainlink"]}, "ABI chainlink has no functions"),
    (CallConfig, {"functions": ["f(uint8 indexed a)"]}, "only parameters of an event"),
    (
        CallConfig,
        {"abis": ["erc20"], "functions": ["transfer(address a, uint b)"]},
        "selector 0xa9",
    ),
]


def test_each_mistake_in_a_config_says_what_would_be_right() -> None:
    for config, given, said in MISTAKES:
        with pytest.raises(ValidationError) as caught:
            config.model_validate(given)
        assert said in str(caught.value), given


def test_columns_have_the_names_of_parameters_and_none_twice() -> None:
    written = "E(uint256 value, uint64 big, uint8, address address, int8 VALUE_string, bytes abi)"
    config = LogConfig.model_validate({"events": [written, "E(uint8 x)"]})
    assert config.outputs() == ("e", "e_2", "undecoded")
    named = {column.name: column.type for column in config.columns()[0][8:]}
    assert named == {
        "value_binary": "binary",
        "value_string": "string",
        "value_f64": "double",
        "big": "decimal128(20, 0)",
        "arg2": "int64",
        "address_param": "binary",
        "VALUE_string_2": "int64",
        "abi_param": "binary",
        "abi": "string",
    }


def test_outputs_are_called_as_their_abi_and_event() -> None:
    config = LogConfig.model_validate(
        {"abis": ["erc20.Transfer", "uniswap_v3.Swap", "erc1155.URI"]}
    )
    names = ("erc20_transfer", "uniswap_v3_swap", "erc1155_uri", "undecoded")
    assert config.outputs() == names
    # No event's rows are counted as what is not decoded.
    taken = LogConfig.model_validate({"events": ["Undecoded(uint8 a)"]})
    assert taken.outputs() == ("undecoded_2", "undecoded")


def test_every_abi_that_comes_with_trace_can_be_decoded() -> None:
    for name in builtin.NAMES:
        assert LogConfig.model_validate({"abis": [name]}).columns(), name
        if builtin.builtin(name).functions:
            assert CallConfig.model_validate({"abis": [name]}).columns(), name


def test_an_event_that_no_log_can_be_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4 indexed"):
        events_of(
            [
                {
                    "type": "event",
                    "name": "A",
                    "inputs": [{"name": "a", "type": "uint8", "indexed": True}] * 4,
                }
            ]
        )
    assert Event("A", ()).topics == 1
