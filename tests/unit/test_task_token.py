"""Reading capability tokens, and issuing them for a task."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from trace_platform.dispatcher.tasks.task_tokens import TaskTokens, refuse_others
from trace_platform.domain.errors import Forbidden, Unauthenticated, Unavailable
from trace_platform.domain.fence import Fence
from trace_platform.drivers.lite.pem_signer import PemSigner
from trace_platform.drivers.task_token import AUDIENCE, ISSUER, TaskClaims, TokenVerifier
from trace_platform.drivers.token_signer import MAX_TOKEN_AGE_S
from trace_platform.wire.task import JobRef, TaskInput, TaskOutput, TaskPayload

NOW = 1_790_000_000
ORG = UUID(int=1)
TASK = UUID(int=2)


def new_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid})


def jwks(*keys: Any, **more: Any) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=False, **more) for key in keys]}


def claims(**changed: Any) -> dict[str, Any]:
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": str(TASK),
        "iat": NOW,
        "exp": NOW + 60,
        "jti": "1",
        "org_id": str(ORG),
        "task_id": str(TASK),
        "attempt": 1,
        "datasets": [],
        "read_prefixes": [],
        "write_prefixes": [],
    } | changed


def signed(key: ECKey, **changed: Any) -> str:
    """By an independent library."""
    return jwt.encode({"alg": "ES256", "kid": key.kid}, claims(**changed), key)


def stranger(kid: str) -> str:
    """A token of the right shape, with a key's name that nobody has."""
    header = urlsafe_b64encode(json.dumps({"alg": "ES256", "kid": kid}).encode()).rstrip(b"=")
    return f"{header.decode()}.e30.{'A' * 86}"


class Issuer:
    """A JWKS that changes or breaks, and how often it was asked."""

    def __init__(self, *keys: ECKey) -> None:
        self.answer: Any = jwks(*keys)
        self.fetches = 0

    def __call__(self) -> dict[str, Any]:
        self.fetches += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Verifier(TokenVerifier):
    """With clocks that a test moves."""

    def __init__(self, issuer: Issuer) -> None:
        self.now, self.uptime = float(NOW), 5.0
        super().__init__(issuer, clock=lambda: self.now, monotonic=lambda: self.uptime)


@pytest.fixture
def key() -> ECKey:
    return new_key("one")


def test_a_good_token_is_read_and_its_key_is_fetched_once(key: ECKey) -> None:
    issuer = Issuer(key)
    verifier = Verifier(issuer)
    for number in range(5):
        assert verifier.read(signed(key, jti=str(number))).jti == str(number)
    assert issuer.fetches == 1


def test_times_count_to_the_second(key: ECKey) -> None:
    verifier = Verifier(Issuer(key))
    token = signed(key)
    for good in (NOW - 60, NOW, NOW + 59.9):
        verifier.now = good
        assert verifier.read(token)
    for bad in (NOW - 60.1, NOW + 60, NOW + 1e9):
        verifier.now = bad
        with pytest.raises(Unauthenticated):
            verifier.read(token)


def test_an_unknown_kid_is_looked_up_at_most_every_30_s(key: ECKey) -> None:
    issuer = Issuer(key)
    verifier = Verifier(issuer)
    verifier.read(signed(key))
    verifier.uptime += 30
    for number in range(20):
        with pytest.raises(Unauthenticated):
            verifier.read(signed(new_key(f"stranger-{number}")))
        verifier.uptime += 1
    assert issuer.fetches == 2
    assert verifier.read(signed(key)), "known keys do not wait"
    verifier.uptime += 10
    with pytest.raises(Unauthenticated):
        verifier.read(signed(new_key("stranger")))
    assert issuer.fetches == 3


def test_a_new_key_is_found_and_a_removed_one_forgotten(key: ECKey) -> None:
    issuer = Issuer(key)
    verifier = Verifier(issuer)
    verifier.read(signed(key))
    verifier.uptime += 30
    newer = new_key("two")
    issuer.answer = jwks(newer)
    assert verifier.read(signed(newer))
    with pytest.raises(Unauthenticated):
        verifier.read(signed(key))


@pytest.mark.parametrize(
    "answer",
    [
        OSError("no route"),
        ZeroDivisionError(),
        {},
        {"keys": []},
        {"keys": "none"},
        {"keys": [7]},
        None,
        jwks(new_key("two"), new_key("two")),
    ],
    ids=["no route", "a defect", "empty", "no keys", "text", "a number", "nothing", "one id twice"],
)
def test_an_outage_leaves_the_known_keys_working(key: ECKey, answer: Any) -> None:
    issuer = Issuer(key)
    verifier = Verifier(issuer)
    verifier.read(signed(key))
    issuer.answer = answer
    verifier.uptime += 30
    two = new_key("two")
    for _ in range(3):
        with pytest.raises(Unavailable):
            verifier.read(signed(two))
    assert issuer.fetches == 2
    assert verifier.read(signed(key))
    verifier.uptime += 5
    issuer.answer = jwks(key, two)
    assert verifier.read(signed(two)), "an outage does not use up the fetch"


def test_before_the_first_key_it_says_that_trying_again_may_help(key: ECKey) -> None:
    issuer = Issuer()
    issuer.answer = OSError("not up yet")
    verifier = Verifier(issuer)
    for _ in range(3):
        with pytest.raises(Unavailable):
            verifier.read(signed(key))
    assert issuer.fetches == 1
    issuer.answer = jwks(key)
    verifier.uptime += 30
    assert verifier.read(signed(key))


def test_keys_that_are_for_something_else_are_passed_over(key: ECKey) -> None:
    token = signed(key)
    good = key.as_dict(private=False)
    others = [
        RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=False),
        OctKey.import_key(b"x" * 32, {"kid": "oct"}).as_dict(),
        ECKey.generate_key("P-384", {"kid": "p384"}).as_dict(private=False),
        good | {"kid": "off the curve", "x": good["y"]},
        good | {"kid": "another type", "kty": "OKP"},
        {"kty": "EC", "kid": "no point"},
        {name: value for name, value in good.items() if name != "kid"},
        good | {"kid": 7},
    ]
    issuer = Issuer()
    issuer.answer = {"keys": [*others, good]}
    verifier = Verifier(issuer)
    assert verifier.read(token)
    assert list(verifier._keys) == ["one"]


@pytest.mark.parametrize(
    "limit", [{"use": "enc"}, {"alg": "ES384"}, {"key_ops": ["sign"]}, {"alg": "ECDH-ES"}]
)
def test_a_key_that_may_not_verify_es256_does_not(key: ECKey, limit: dict[str, Any]) -> None:
    issuer = Issuer()
    issuer.answer = jwks(key, **limit)
    with pytest.raises(Unavailable):
        Verifier(issuer).read(signed(key))


def test_threads_that_meet_a_new_key_fetch_it_once_and_all_read(key: ECKey) -> None:
    issuer = Issuer(key)
    verifier = Verifier(issuer)
    token, start = signed(key), threading.Barrier(8)
    read: list[TaskClaims] = []

    def run() -> None:
        start.wait()
        read.append(verifier.read(token))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 8
    assert issuer.fetches == 1


def payload(**changed: Any) -> TaskPayload:
    given = {"dataset_uuid": uuid4(), "dataset_version": uuid4()}
    fields: dict[str, Any] = {
        "task_id": TASK,
        "attempt": 3,
        "org_id": ORG,
        "job": JobRef(dag_name="chain", name="ingest"),
        "operator": "cryo_ingest",
        "config": {},
        "inputs": [
            TaskInput(**given, cursor=7, input_index=0, files=["s3://b/x/1", "s3://b/x/2"]),
            TaskInput(**given, cursor=7, input_index=1, files=["s3://b/a/1"]),
        ],
        "outputs": [TaskOutput(**given, output_index=0, name="blocks", prefix="s3://b/out/")],
        "timeout_seconds": 600.9,
        "heartbeat_timeout_seconds": 30,
        "log_uri": "s3://b/log",
    }
    return TaskPayload(**fields | changed)


@pytest.fixture
def tokens(tmp_path: Path) -> TaskTokens:
    return TaskTokens(PemSigner(tmp_path / "keys"))


def fence(task: TaskPayload) -> Fence:
    return Fence(task.task_id, task.attempt, uuid4())


def test_a_token_grants_what_its_task_needs(tokens: TaskTokens) -> None:
    task = payload()
    before = int(time.time())
    read = tokens.read(tokens.issue(ORG, task, ["s3://b/tmp/"]))
    assert (read.iss, read.aud, read.sub) == (ISSUER, AUDIENCE, str(TASK))
    assert (read.org_id, read.task_id, read.attempt) == (ORG, TASK, 3)
    assert before <= read.iat <= time.time()
    assert read.exp - read.iat == 900
    assert [d.alias for d in read.datasets] == ["input_0", "input_1"]
    for granted, given in zip(read.datasets, task.inputs, strict=True):
        assert granted.dataset_uuid == given.dataset_uuid
        assert granted.dataset_version == given.dataset_version
        assert granted.files == given.files
        assert granted.filter is None
    assert read.read_prefixes == ["s3://b/a/", "s3://b/x/"]
    assert read.write_prefixes == ["s3://b/out/"]
    assert read.scratch_prefixes == ["s3://b/tmp/"]


def test_a_row_filter_goes_into_the_token(tokens: TaskTokens) -> None:
    where = {"severity": "critical", "value": {"gte": 2**255}, "chain_id": {"in": [1, 10]}}
    given = TaskInput(
        dataset_uuid=uuid4(), dataset_version=uuid4(), cursor=1, input_index=0, where=where
    )
    task = payload(inputs=[given])
    (granted,) = tokens.read(tokens.issue(ORG, task)).datasets
    assert granted.filter == where


def test_what_is_issued_is_exactly_the_claims_model(tokens: TaskTokens) -> None:
    issued: Any = tokens.jwks
    token = jwt.decode(tokens.issue(ORG, payload()), KeySet.import_key_set(issued))
    assert json.loads(TaskClaims.model_validate(token.claims).model_dump_json()) == token.claims


def test_no_token_outlives_the_keys_memory(tokens: TaskTokens) -> None:
    task = payload(timeout_seconds=1e7)
    read = tokens.read(tokens.issue(ORG, task))
    assert read.exp - read.iat == MAX_TOKEN_AGE_S


def test_no_two_tokens_are_the_same(tokens: TaskTokens) -> None:
    task = payload()
    jtis = {tokens.read(tokens.issue(ORG, task)).jti for _ in range(20)}
    assert len(jtis) == 20


def test_a_token_of_another_attempt_or_task_is_forbidden(tokens: TaskTokens) -> None:
    task = payload()
    claims = tokens.read(tokens.issue(ORG, task))
    refuse_others(claims, fence(task))
    for other in (payload(attempt=2), payload(task_id=uuid4())):
        with pytest.raises(Forbidden):
            refuse_others(claims, fence(other))


def test_tokens_from_before_a_rotation_stay_valid(tokens: TaskTokens) -> None:
    task = payload()
    before = tokens.issue(ORG, task)
    kid = tokens.rotate()
    after = tokens.issue(ORG, task)
    assert tokens.read(before)
    assert tokens.read(after)
    newest, _ = tokens.jwks["keys"]
    assert newest["kid"] == kid


@pytest.mark.parametrize("gap_s", [0.1, 1, 29.9, 30, 31])
def test_kids_that_strangers_make_up_keep_no_verifier_from_a_rotated_key(
    tmp_path: Path, gap_s: float
) -> None:
    """However often they are named, and at whatever moment the key is rotated."""
    uptime = [0.0]
    clock = lambda: NOW + uptime[0]  # noqa: E731
    signer = PemSigner(tmp_path / "keys", clock=clock, monotonic=clock)
    verifier = TokenVerifier(signer.jwks, clock=clock, monotonic=lambda: uptime[0])
    assert verifier.read(signer.sign(claims(exp=NOW + 1_000)))
    seen = set()
    while uptime[0] < 300:
        uptime[0] += gap_s
        with pytest.raises(Unauthenticated):
            verifier.read(stranger(f"made-up-{uptime[0]}"))
        if len(seen) < uptime[0] // 90:
            seen.add(signer.rotate())
        assert verifier.read(signer.sign(claims(exp=NOW + 1_000)))
    assert signer.ages()[0].kid in seen


def test_another_dispatchers_new_key_is_known_at_once(tmp_path: Path) -> None:
    """Even while strangers' tokens ask for kids that nobody knows."""
    one, other = (TaskTokens(PemSigner(tmp_path / "keys")) for _ in range(2))
    task = payload()
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            other.read(signed(new_key("stranger")))
        one.rotate()
        assert other.read(one.issue(ORG, task))
