"""ABIs as people have them, and what is said of those that cannot be read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_platform.domain.errors import InvalidAbi
from trace_platform.operators.decode.abi_source import read_abi

TRANSFER: dict[str, Any] = {
    "type": "event",
    "name": "Transfer",
    "inputs": [
        {"name": "from", "type": "address", "indexed": True},
        {"name": "to", "type": "address", "indexed": True},
        {"name": "value", "type": "uint256"},
    ],
}
SEND = {"type": "function", "name": "send", "inputs": [{"name": "to", "type": "address"}]}
LINES = """
// A token.
event Transfer(
    address indexed from,  // who sends
    address indexed to,
    uint256 value
);
function send(address to) external;
error NotEnough(uint256 needed);
"""


def test_json_an_artifact_and_lines_say_the_same() -> None:
    listed = json.dumps([TRANSFER, SEND, {"type": "constructor", "inputs": []}], indent=2)
    artifact = json.dumps({"bytecode": "0x00", "abi": [TRANSFER, SEND], "ast": {"abi": []}})
    read = [read_abi(text) for text in (listed, artifact, LINES)]
    assert len({each.digest for each in read}) == 1
    assert [event.signature for event in read[0].events] == ["Transfer(address,address,uint256)"]
    assert [function.signature for function in read[0].functions] == ["send(address)"]


def test_an_entry_that_stands_there_twice_is_there_once() -> None:
    abi = read_abi(json.dumps([TRANSFER, TRANSFER]))
    assert len(abi.events) == 1


def at(text: str) -> tuple[Any, Any, str]:
    with pytest.raises(InvalidAbi) as raised:
        read_abi(text)
    return raised.value.facts.get("line"), raised.value.facts.get("column"), raised.value.message


def test_what_cannot_be_read_is_named_with_its_line_and_column() -> None:
    broken = json.dumps([TRANSFER], indent=1).replace('"type": "event"', '"type" "event"')
    assert at(broken)[:2] == (3, 10)
    wrong = {"type": "event", "name": "E", "inputs": [{"name": "x", "type": "uint7"}]}
    line, column, said = at(json.dumps([TRANSFER, wrong], indent=1))
    assert (line, column) == (22, 2)
    assert "uint7" in said
    line, column, said = at("event A(uint256 x)\n  event B(uint7 y)\n")
    assert (line, column) == (2, 11)
    assert "widths are" in said
    line, column, said = at("event A(uint256 x)\nTransfer(address a)")
    assert (line, column) == (2, 1)
    assert "`event` or `function`" in said


def test_events_that_no_log_tells_apart_are_refused() -> None:
    same_topics = "event A(uint256 indexed x, uint256 y)\nevent A(uint256 x, uint256 indexed y)"
    line, _, said = at(same_topics)
    assert line == 2
    assert "nothing in the data tells them apart" in said
    assert "with other names" in at("function f(uint256 a)\nfunction f(uint256 b)")[2]
    # ERC-20's and ERC-721's differ in their number of topics.
    both = "event T(uint256 indexed x, uint256 y)\nevent T(uint256 indexed x, uint256 indexed y)"
    assert len(read_abi(both).events) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither events nor functions"),
        ("[]", "neither events nor functions"),
        ('{"bytecode": "0x"}', "an object without a list `abi`"),
        ("[1]", "an entry is an object"),
        ("[" * 100_000, "nested deeper"),
        ('[{"type": "event", "name": "a b", "inputs": []}]', "no name of Solidity"),
    ],
)
def test_other_mistakes_are_said_plainly(text: str, said: str) -> None:
    assert said in at(text)[2]


@given(st.text(alphabet='[]{}(),:"abi eventfunctiouint256 x\n/', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidAbi):
        assert read_abi(text).digest
