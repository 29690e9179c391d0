"""Keys of RPC providers stay in the egress, and one process uses each at a time."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.bad_provider import HTML, BadProvider, Fault, bad_provider
from tests.support.control_plane import SECRETS
from tests.support.served_dispatcher import ServedDispatcher
from tests.support.served_egress import QUICK, USER_TOKEN, call, served_egress
from trace_platform.app.doctor import check_rpc
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.named_secrets import NamedSecrets
from trace_platform.app.instance.open_instance import Instance
from trace_platform.app.instance.rotatable_secret import RotatableSecret
from trace_platform.app.instance.rpc_endpoints import (
    missing_keys,
    pool_configs,
    rpc_endpoints,
    shown_keys,
)
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise.lite_stack import lite_stages
from trace_platform.app.supervise.process import Keeper
from trace_platform.domain.errors import DispatcherUnreachable, InvalidConfig
from trace_platform.rpc.config import PoolConfig, ProviderConfig
from trace_platform.rpc.key_claims import DispatcherClient

KEY = "k3y-0f-the-pr0vider"
BALANCE = "eth_getBalance"
ASKED = (BALANCE, "0xaa", "0x1")
Eventually = Callable[..., None]


@pytest.fixture
def node() -> Iterator[BadProvider]:
    with bad_provider() as node:
        yield node


@pytest.fixture
def dispatcher(state_dsns: Any, tmp_path: Path) -> Iterator[ServedDispatcher]:
    served = ServedDispatcher(state_dsns, tmp_path)
    served.start()
    yield served
    served.stop()


def keyed(node: BadProvider, **given: Any) -> PoolConfig:
    url = f"{node.url}/v2/{{key}}"
    return PoolConfig("main", (ProviderConfig("a", url, key=KEY, key_name="k", **given),))


# Where a key goes


def test_a_key_goes_into_its_place_in_the_url(node: BadProvider) -> None:
    with served_egress(keyed(node)) as egress:
        assert "result" in egress.call(*ASKED)
    assert set(node.paths) == {f"/v2/{KEY}"}


def test_without_a_place_it_goes_as_a_bearer_token(node: BadProvider) -> None:
    provider = ProviderConfig("a", node.url, key=KEY, key_name="k")
    with served_egress(PoolConfig("main", (provider,))) as egress:
        assert "result" in egress.call(*ASKED)
    assert node.seen_headers[-1]["authorization"] == f"Bearer {KEY}"


def test_no_header_of_the_client_reaches_the_provider(node: BadProvider) -> None:
    with served_egress(keyed(node)) as egress:
        egress.call(*ASKED)
    for headers in node.seen_headers:
        assert not any("trace-worker" in name.lower() for name in headers)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error={"code": -32000, "message": f"bad path /v2/{KEY}", "data": KEY}),
        Fault(error={"code": -32005, "message": f"limit of {KEY}"}),
        Fault(401, f"no {KEY}".encode()),
        Fault(500, f"no {KEY}".encode()),
        Fault(404, f"no {KEY}".encode()),
        Fault(302, b"", {"Location": f"http://127.0.0.1:9/{KEY}"}),
        HTML,
    ],
    ids=str,
)
def test_whatever_a_provider_says_its_key_is_not_repeated(
    node: BadProvider, capfd: pytest.CaptureFixture[str], fault: Fault
) -> None:
    node.always[BALANCE] = node.always["eth_blockNumber"] = fault
    authorized = {"Authorization": f"Bearer {USER_TOKEN}"}
    with served_egress(keyed(node)) as egress:
        told = egress.post("main", [call(*ASKED, call_id=1), call(*ASKED, call_id=2)]).text
        told += egress.post("main", call(*ASKED)).text
        told += egress.http.get("/v1/pools", headers=authorized).text
        told += egress.http.get("/metrics", headers=authorized).text
    assert "error" in told
    assert KEY not in told
    assert KEY not in "".join(capfd.readouterr())
    assert KEY not in repr(keyed(node))


@pytest.mark.parametrize("results", [1, 4], ids=["held", "larger than what streams"])
def test_a_large_answer_does_not_repeat_the_key_either(node: BadProvider, results: int) -> None:
    result = {"jsonrpc": "2.0", "result": "a" * (3 << 20)}
    error = {"code": -32000, "message": f"project {KEY} has exceeded its budget", "data": KEY}
    said: list[Any] = [{**result, "id": i} for i in range(results)]
    said.append({"jsonrpc": "2.0", "id": results, "error": error})
    node.always[BALANCE] = Fault(body=json.dumps(said).encode())
    with served_egress(keyed(node)) as egress:
        told = egress.post("main", [call(*ASKED, call_id=i) for i in range(results + 1)])
    assert told.json()[:results] == said[:results]
    assert told.json()[results]["error"]["message"] == "project *** has exceeded its budget"
    assert KEY not in told.text


# What the settings say


CONFIG = """
[rpc_pools]
local = "http://127.0.0.1:8545"
[rpc_pools.mainnet]
chain_id = 1
[[rpc_pools.mainnet.providers]]
name = "first"
url = "https://first.example/v2/{key}"
key_secret = "first_key"
requests_per_second = 25
max_concurrency = 8
max_batch = 100
[[rpc_pools.mainnet.providers]]
name = "second"
url = "https://second.example"
priority = 2
"""


def settings(folder: Path, text: str = CONFIG, **environ: str) -> Settings:
    Home(folder).config_file.write_text(text)
    return load_settings(Home(folder), environ)


def test_pools_are_made_of_settings_and_secrets(tmp_path: Path) -> None:
    found = settings(tmp_path, TRACE_RPC_DEV="https://dev.example/v3/0123456789abcdef")
    pools = {pool.name: pool for pool in pool_configs(found, {"first_key": KEY}.get)}
    first, second = pools["mainnet"].providers
    assert pools["mainnet"].chain_id == 1
    assert first.full_url == f"https://first.example/v2/{KEY}"
    assert first.endpoint == "https://first.example:443"
    assert (first.requests_per_second, first.max_concurrency, first.max_batch) == (25, 8, 100)
    assert (first.key_name, second.key_name, second.priority) == ("first_key", None, 2)
    # A URL that may hold a key is claimed, one that cannot is not.
    assert pools["dev"].providers[0].key_name == "dev/node"
    assert pools["local"].providers[0].key_name is None
    assert "0123456789abcdef" not in repr(found)


def test_a_key_without_a_value_is_named_and_its_provider_left_out(tmp_path: Path) -> None:
    found = settings(tmp_path)
    nothing: dict[str, str] = {}
    assert missing_keys(found, nothing.get) == ["first_key"]
    first, second = pool_configs(found, nothing.get)[1].providers
    assert (first.lacks_key, second.lacks_key) == (True, False)


@pytest.mark.parametrize(
    ("url", "key", "shows"),
    [
        ("http://node.example/v2/{key}", True, True),
        ("http://node.example", True, True),
        ("http://10.0.0.5:8545/v2/0123456789abcdef", False, True),
        ("http://me:pw@node.example", False, True),
        ("http://10.0.0.5:8545", False, False),
        ("https://node.example/v2/{key}", True, False),
        ("http://127.0.0.1:8545/v2/{key}", True, False),
        ("http://[::1]:8545/v2/{key}", True, False),
        ("http://127.0.0.1@node.example/{key}", True, True),
    ],
)
def test_a_key_that_can_be_read_on_the_way_is_warned_of(
    tmp_path: Path, url: str, key: bool, shows: bool
) -> None:
    text = f"[[rpc_pools.m.providers]]\nname = 'a'\nurl = '{url}'\n"
    found = settings(tmp_path, text + ("key_secret = 'first_key'\n" if key else ""))
    NamedSecrets(Home(tmp_path)).set("first_key", KEY)
    pools = pool_configs(found, {"first_key": KEY}.get)
    assert shown_keys(pools) == (["m/a"] if shows else [])
    finding = check_rpc(Home(tmp_path), found)
    assert finding.level == ("warn" if shows else "ok")
    assert KEY not in finding.detail
    assert "0123456789abcdef" not in finding.detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rpc_pools]\nm = 'ftp://s3cr3t'", "the URL of a node starts with http:// or https://"),
        ("[rpc_pools]\n'a b' = 'http://x'", "a name is at most 60 letters"),
        ("[rpc_pools.m]\nproviders = []", "rpc_pools.m.providers: "),
        ("[[rpc_pools.m.providers]]\nname='a'\nurl='http://x'\nmax_batch=0", "max_batch"),
        ("[[rpc_pools.m.providers]]\nname='a'\nurl='http://x'\nkey='s3cr3t'", "providers.0.key: "),
        (
            "[[rpc_pools.m.providers]]\nname='a'\nurl='http://x'\n"
            "[[rpc_pools.m.providers]]\nname='a'\nurl='http://y'",
            "2 providers are called a",
        ),
    ],
)
def test_a_wrong_pool_is_named_without_its_url(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        settings(tmp_path, text)
    assert said in caught.value.message
    assert "s3cr3t" not in caught.value.message


def test_keys_reach_the_egress_alone_and_the_worker_knows_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_SECRET_FIRST_KEY", KEY)
    monkeypatch.setenv("TRACE_SECRET_HOOK", "of-a-webhook")
    ports = dict.fromkeys(("postgres", "dispatcher", "query", "rpc", "devchain"), 1)
    home, env = Home(tmp_path), {"TRACE_RPC_DEMO": f"https://x.example/{KEY}"}
    stages = lite_stages(home, settings(tmp_path), Instance(ports), env=env)
    specs = [spec for stage in stages for spec in stage.processes if spec.name != "postgres"]
    told = {spec.name: Keeper(spec, home, lambda _: None)._env() for spec in specs}
    # The dispatcher may read every named secret.
    assert {name for name, env in told.items() if KEY in str(env)} == {"rpc", "dispatcher"}
    assert {name for name, env in told.items() if "x.example" in str(env)} == {"rpc"}
    assert "of-a-webhook" not in str(told["rpc"])
    assert told["worker"]["TRACE_POOL_NAMES"] == "demo,local,mainnet"
    assert all(KEY not in part for spec in specs for part in spec.command())


def test_a_worker_asks_the_egress_and_knows_which_pools_there_are(tmp_path: Path) -> None:
    found = settings(tmp_path, "", TRACE_POOL_NAMES="demo,mainnet")
    token = Home(tmp_path).secret_file("worker_token")
    ask = rpc_endpoints("https://localhost:7", token, "PEM", found.known_pools)
    first = ask("demo")
    assert (first.url, first.ca) == ("https://localhost:7/pools/demo", "PEM")
    assert first.token is not None
    before = first.token.read()
    RotatableSecret(Home(tmp_path).secrets, "worker_token").rotate()
    assert first.token.read() == Home(tmp_path).secret("worker_token") != before
    assert before.encode() not in pickle.dumps(first)
    with pytest.raises(InvalidConfig, match=r"no RPC pool 'nope' \(known: demo, mainnet\)"):
        ask("nope")


# Who uses a key


class Away:
    """A Dispatcher that can be switched off."""

    def __init__(self) -> None:
        self.away = True

    async def claim(self, holder: str, keys: Sequence[str], lease_s: float) -> set[str]:
        if self.away:
            raise DispatcherUnreachable("away")
        return set(keys)


def test_two_processes_never_use_one_key_and_the_second_takes_over(
    node: BadProvider, dispatcher: ServedDispatcher, eventually: Eventually, state_dsns: Any
) -> None:
    def registry() -> DispatcherClient:
        return DispatcherClient(dispatcher.url, SECRETS.service_token)

    with ExitStack() as first_life, ExitStack() as second_life:
        # A busy machine renews it in time; the second looks more often whether it is free.
        long = replace(QUICK, lease_s=15.0)
        first = first_life.enter_context(
            served_egress(keyed(node), timing=long, registry=registry(), holder="one")
        )
        eventually(lambda: first.states()["a"] == "ok", "the first has the key")
        second = second_life.enter_context(
            served_egress(keyed(node), registry=registry(), holder="two")
        )
        assert "result" in first.call(*ASKED)
        error = second.call(*ASKED)["error"]
        assert error["code"] == -32050
        assert "the key k is not ours" in error["message"]
        with psycopg.connect(state_dsns.owner) as state:
            held = state.execute("SELECT key_name, holder FROM rpc_key_claims").fetchall()
        assert held == [("k", "one")]
        first_life.close()
        eventually(lambda: "result" in second.call(*ASKED), "the second takes over")


def test_a_claim_that_nobody_renews_ends(
    node: BadProvider, dispatcher: ServedDispatcher, eventually: Eventually, state_dsns: Any
) -> None:
    with psycopg.connect(state_dsns.owner, autocommit=True) as state:
        state.execute(
            "INSERT INTO rpc_key_claims VALUES ('k', 'dead', now(), now() + interval '1 hour')"
        )
        client = DispatcherClient(dispatcher.url, SECRETS.service_token)
        with served_egress(keyed(node), registry=client) as egress:
            eventually(lambda: egress.states()["a"] == "no_key", "it is another's")
            state.execute("UPDATE rpc_key_claims SET expires_at = now()")
            eventually(lambda: egress.states()["a"] == "ok", "it is free")


def test_only_services_claim_keys(dispatcher: ServedDispatcher) -> None:
    body = {"holder": "x", "keys": ["k"], "lease_s": 5}
    for headers in ({}, {"X-Trace-Service-Token": "wrong"}):
        response = httpx.post(
            f"{dispatcher.url}/internal/rpc/key-claims", json=body, headers=headers
        )
        assert response.status_code == 401


def test_what_was_claimed_is_used_on_while_the_dispatcher_is_away(
    node: BadProvider, eventually: Eventually
) -> None:
    registry = Away()
    with served_egress(keyed(node), registry=registry, timing=QUICK) as egress:
        assert egress.call(*ASKED)["error"]["code"] == -32050  # never claimed
        registry.away = False
        eventually(lambda: egress.states()["a"] == "ok", "it is claimed")
        registry.away = True
        before = node.times("eth_blockNumber")
        # Several leases long.
        eventually(lambda: node.times("eth_blockNumber") > before + 20, "time passes")
        assert "result" in egress.call(*ASKED)
