"""Calls of contracts as bytes, and what they answer."""

from __future__ import annotations

from typing import Any

import pytest

from trace_platform.operators.decode.abi_text import parse_function
from trace_platform.operators.decode.encode_call import decode_result, encode_call, result_of

ADDRESS = "0x" + "c0" * 20


def test_arguments_are_words_behind_the_selector() -> None:
    function = parse_function("f(address to, uint256 n, int8 m, bool b, bytes4 id)")
    calldata = encode_call(function, [ADDRESS, str(2**256 - 1), -1, True, "0x01020304"])
    assert calldata[:4] == function.selector
    assert calldata[4:].hex() == (f"{'c0' * 20:0>64}{'f' * 64}{'f' * 64}{1:064x}{'01020304':0<64}")
    assert encode_call(parse_function("totalSupply()"), []).hex() == "18160ddd"


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("f(address)", [], "takes 1 arguments, not 0"),
        ("f(address)", ["0x12"], "write 0x and 40 hexadecimal digits"),
        ("f(uint8)", [256], "256 does not fit uint8"),
        ("f(uint256)", [-1], "does not fit"),
        ("f(uint256)", [True], "write a whole number"),
        ("f(uint256)", ["1.5"], "write a whole number"),
        ("f(bool)", [1], "write true or false"),
        ("f(string)", ["a"], "only values of one word"),
    ],
)
def test_arguments_that_do_not_fit_are_named(function: str, arguments: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode_call(parse_function(function), arguments)


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        ("uint256", "ff" * 32, 2**256 - 1),
        ("int256", "ff" * 32, -1),
        ("int8", f"{'80':f>64}", -128),
        ("bool", f"{1:064x}", True),
        ("address", f"{'c0' * 20:0>64}", bytes.fromhex("c0" * 20)),
        ("bytes4", f"{'01020304':0<64}", bytes([1, 2, 3, 4])),
    ],
)
def test_an_answer_is_a_value_of_its_type(kind: str, word: str, expected: Any) -> None:
    assert decode_result(result_of(kind), bytes.fromhex(word)) == expected


@pytest.mark.parametrize(
    ("kind", "word", "said"),
    [
        ("uint8", f"{256:064x}", "no uint8"),
        ("bool", f"{2:064x}", "neither 0 nor 1"),
        ("uint256", "00" * 31, "31 bytes"),
    ],
)
def test_an_answer_that_is_none_of_its_type_is_refused(kind: str, word: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decode_result(result_of(kind), bytes.fromhex(word))
    with pytest.raises(ValueError, match="no type of one word"):
        result_of("string")
