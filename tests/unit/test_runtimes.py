"""The runtime registry: who is in it, and what it says to those who ask for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime, Runtimes, starting_point


def refused(ask: object, *args: str) -> str:
    assert callable(ask)
    with pytest.raises(InvalidConfig) as caught:
        ask(*args)
    error = caught.value
    return f"{error.message}; {error.hint}" if error.hint else error.message


def test_these_come_with_trace() -> None:
    runtimes = {runtime.name: runtime for runtime in Runtimes.default()}
    assert {name: r.kind for name, r in runtimes.items()} == {
        "dispatcher": "dispatcher",
        "lambda": "lambda",
        "ecs_platform": "queue",
        "ecs_udf": "queue",
    }
    assert runtimes["ecs_platform"].capabilities == {"long_running", "sources", "spark"}
    assert runtimes["lambda"].max_timeout_seconds == 900
    assert not [problem for runtime in DEFAULT_RUNTIMES for problem in runtime.problems()]


def test_a_runtime_is_found_by_name() -> None:
    runtimes = Runtimes([*DEFAULT_RUNTIMES, Runtime("ecs_r", queue="r_tasks")])
    assert runtimes.get("ecs_r").queue == "r_tasks"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ecs_plattform", "there is no runtime 'ecs_plattform'; did you mean 'ecs_platform'?"),
        (
            "r",
            "there is no runtime 'r'; registered here: dispatcher, lambda, ecs_platform; "
            "add it as [runtimes.r]",
        ),
        (
            "ecs_udf",
            "ecs_udf is switched off; enable it by name: [runtimes.ecs_udf] enabled = true",
        ),
    ],
)
def test_who_asks_for_another_is_told_what_would_be_right(name: str, said: str) -> None:
    assert refused(Runtimes.default().get, name) == said


def test_two_runtimes_cannot_share_a_queue() -> None:
    two = [Runtime("a", queue="q"), Runtime("b", queue="q")]
    with pytest.raises(InvalidConfig, match="a and b cannot share the queue 'q'"):
        Runtimes(two)
    off = replace(two[1], enabled=False)
    assert Runtimes([two[0], off]).get("a").queue == "q"


@corpus(
    ("runtime", "said"),
    [
        (
            Runtime("a", queue="a", timeout_seconds=1000, max_timeout_seconds=900),
            ("timeout_seconds", "1000 is more than max_timeout_seconds, which is 900"),
        ),
        (Runtime("a", "lambda", queue="a"), ("queue", "a runtime of kind lambda has no queue")),
        (
            Runtime("a", queue="a", url="http://x"),
            ("url", 'a runtime of kind queue has no url; kind = "lambda" has'),
        ),
        *(
            (
                Runtime("a", "lambda", url=url),
                ("url", "http:// to another machine shows every task's token: use https://"),
            )
            for url in (
                "http://functions.example/invoke?key=hunter2",
                "http://10.0.0.7:9100/",
                "http://127.0.0.1@functions.example/",
                "http://127.0.0.1.functions.example/",
                "http://0.0.0.0:9100/",
                "http://[::2]/",
                "HTTP://functions.example/",
                "http://",
            )
        ),
    ],
)
def test_what_does_not_fit_together_is_named(runtime: Runtime, said: tuple[str, str]) -> None:
    assert list(runtime.problems()) == [said]


def test_a_function_is_called_over_https_or_on_this_machine() -> None:
    for url in (
        "https://functions.example/invoke",
        "http://127.0.0.1:9100/",
        "http://127.8.9.1/",
        "http://localhost:9100/invoke",
        "http://[::1]:9100/",
    ):
        assert list(Runtime("a", "lambda", url=url).problems()) == [], url


def test_a_new_runtime_starts_as_one_of_its_kind() -> None:
    assert starting_point("ecs_r") == Runtime("ecs_r", queue="ecs_r")
    assert starting_point("lambda_eu", "lambda").max_timeout_seconds == 900
    assert starting_point("ecs_platform") is DEFAULT_RUNTIMES[2]


def test_the_kind_of_ours_is_fixed() -> None:
    said = "ecs_platform is of kind queue; register another name for that kind"
    assert refused(starting_point, "ecs_platform", "lambda") == said
    assert "'dispatcher'" in refused(starting_point, "other", "dispatcher")


def test_a_url_is_not_shown() -> None:
    assert "secret" not in repr(Runtime("a", "lambda", url="http://secret@host"))
