"""ABIs of a running instance, as a user sees them."""

from __future__ import annotations

from trace_platform.app.api_client.service_client import get, post, segment
from trace_platform.app.instance.home import Home
from trace_platform.wire.abi import (
    AbiChanged,
    AbiDetail,
    AbiGuesses,
    AbiList,
    AbiRemoved,
    AddAbi,
    AddProxy,
    GuessAbi,
    ProxyRemoved,
    RemoveAbi,
    RemoveProxy,
)


def add(home: Home, given: AddAbi) -> AbiChanged:
    return post(home, AbiChanged, "/v1/abis", given.model_dump(mode="json"))


def listing(home: Home, chain_id: int | None, address: str | None) -> AbiList:
    return get(home, AbiList, "/v1/abis", chain_id=chain_id, address=address)


def show(home: Home, name: str) -> AbiDetail:
    return get(home, AbiDetail, f"/v1/abis/{segment(name)}")


def remove(home: Home, name: str, given: RemoveAbi) -> AbiRemoved:
    path = f"/v1/abis/{segment(name)}/removal"
    return post(home, AbiRemoved, path, given.model_dump(mode="json"))


def guess(home: Home, given: GuessAbi) -> AbiGuesses:
    return post(home, AbiGuesses, "/v1/abi-guesses", given.model_dump(mode="json"))


def add_proxy(home: Home, given: AddProxy) -> AbiChanged:
    return post(home, AbiChanged, "/v1/abi-proxies", given.model_dump(mode="json"))


def remove_proxy(home: Home, given: RemoveProxy) -> ProxyRemoved:
    return post(home, ProxyRemoved, "/v1/abi-proxies/removal", given.model_dump(mode="json"))
