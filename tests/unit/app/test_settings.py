from __future__ import annotations

from pathlib import Path

import pytest

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime


def settings(folder: Path, text: str, **environ: str) -> Settings:
    home = Home(folder)
    home.config_file.write_text(text)
    return load_settings(home, environ)


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ("wroker = 9001", "no process with a port is called wroker"),
        ("query = 0", "ports.query: "),
        ("query = 65536", "ports.query: "),
        ("query = true", "ports.query: "),
        ('query = "9001"', "ports.query: "),
        ("query = 9001\ndispatcher = 9001", "query and dispatcher cannot share port 9001"),
    ],
)
def test_a_wrong_port_is_named(tmp_path: Path, ports: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        settings(tmp_path, f"[ports]\n{ports}\n")
    assert words in caught.value.message
    assert "Value error" not in caught.value.message


def test_every_process_that_listens_may_have_a_port(tmp_path: Path) -> None:
    ports = {"postgres": 1, "dispatcher": 2, "query": 3, "rpc": 4, "devchain": 65535}
    text = "[ports]\n" + "".join(f"{name} = {port}\n" for name, port in ports.items())
    assert settings(tmp_path, text).ports == ports


def test_variables_count_over_the_file(tmp_path: Path) -> None:
    text = '[spark]\nmaster = "local[1]"\n[rpc_pools]\nmainnet = "http://a"\n'
    found = settings(tmp_path, text, TRACE_RPC_MAINNET="http://b", TRACE_SPARK_MASTER="local[2]")
    assert [each.url for each in found.rpc_pools["mainnet"].providers] == ["http://b"]
    assert found.spark.master == "local[2]"


@pytest.mark.parametrize("content", [b"= 1", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"config\.toml"):
        load_settings(Home(tmp_path), {})


def test_no_secret_is_sent_where_others_read_along(tmp_path: Path) -> None:
    target = '[lineage]\nopenlineage = "http://lineage.example/v1"\n'
    assert settings(tmp_path, target).lineage.secret is None
    assert "read the secret along" in refused(tmp_path, f'{target}secret = "collector"\n')
    own = target.replace("lineage.example", "127.0.0.1:9")
    assert settings(tmp_path, f'{own}secret = "collector"\n').lineage.secret == "collector"


def refused(folder: Path, text: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        settings(folder, text)
    return caught.value.message.removeprefix(f"{folder}/config.toml: ")


def test_without_a_word_the_runtimes_are_those_that_come_with_trace(tmp_path: Path) -> None:
    assert list(settings(tmp_path, "").runtime_registry()) == list(DEFAULT_RUNTIMES)


def test_a_runtime_of_any_name_can_be_added(tmp_path: Path) -> None:
    text = """
        [runtimes.ecs_r]
        queue = "r-tasks"
        capabilities = ["r", "long_running"]
        max_concurrency = 4
        timeout_seconds = 600
        max_timeout_seconds = 7200
        heartbeat_timeout_seconds = 120
        [worker]
        runtime = "ecs_r"
    """
    found = settings(tmp_path, text)
    assert found.worker.runtime == "ecs_r"
    assert found.runtime_registry().get("ecs_r") == Runtime(
        "ecs_r",
        queue="r-tasks",
        capabilities=frozenset({"r", "long_running"}),
        max_concurrency=4,
        timeout_seconds=600,
        max_timeout_seconds=7200,
        heartbeat_timeout_seconds=120,
    )


def test_what_is_said_of_a_runtime_of_ours_counts_over_its_defaults(tmp_path: Path) -> None:
    text = """
        [runtimes.lambda]
        url = "http://127.0.0.1:9000/invoke"
        trusted_operators = ["score_model"]
        [runtimes.ecs_udf]
        enabled = true
        [runtimes.ecs_platform]
        max_timeout_seconds = 900
    """
    runtimes = settings(tmp_path, text).runtime_registry()
    assert runtimes.get("lambda").url == "http://127.0.0.1:9000/invoke"
    assert runtimes.get("lambda").max_timeout_seconds == 900
    assert runtimes.get("lambda").trusted_operators == {"score_model"}
    assert runtimes.get("ecs_udf").queue == "ecs_udf"
    assert runtimes.get("ecs_platform").timeout_seconds == 900
    assert "spark" in runtimes.get("ecs_platform").capabilities


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[runtimes.Ecs-R]",
            "runtimes.Ecs-R: a name is lower-case letters, digits and '_', starting with a letter",
        ),
        (
            "[runtimes.r]\nqueu = 'x'",
            "runtimes.r.queu: there is no such setting; did you mean queue?",
        ),
        ("[runtimes.r]\nqueue = 'a b'", "runtimes.r.queue: a queue is at most 80 letters"),
        ("[runtimes.r]\nenabled = 1", "runtimes.r.enabled: Input should be a valid boolean"),
        ("[runtimes.r]\nkind = 'ecs'", "runtimes.r.kind: Input should be 'queue', 'lambda' or"),
        ("[runtimes.r]\nmax_concurrency = 0", "runtimes.r.max_concurrency: Input should be gre"),
        ("[runtimes.r]\ntimeout_seconds = 1e6", "runtimes.r.timeout_seconds: Input should be les"),
        (
            "[runtimes.r]\ntimeout_seconds = 10\nmax_timeout_seconds = 5",
            "runtimes.r.timeout_seconds: 10 is more than max_timeout_seconds, which is 5",
        ),
        (
            "[runtimes.lambda]\nqueue = 'q'",
            "runtimes.lambda.queue: a runtime of kind lambda has no queue",
        ),
        (
            "[runtimes.lambda]\nurl = 'ftp://x'",
            "runtimes.lambda.url: the address of a function starts",
        ),
        (
            "[runtimes.lambda]\nurl = 'http://functions.example/invoke'",
            "runtimes.lambda.url: http:// to another machine shows every task's token: use https",
        ),
        (
            "[runtimes.r]\nurl = 'http://x'",
            'runtimes.r.url: a runtime of kind queue has no url; kind = "lambda" has',
        ),
        (
            "[runtimes.lambda]\nkind = 'queue'",
            "runtimes.lambda.kind: lambda is of kind lambda; register another name for that kind",
        ),
        (
            "[runtimes.r]\nqueue = 'ecs_platform'",
            "runtimes: ecs_platform and r cannot share the queue 'ecs_platform'",
        ),
        (
            "[worker]\nruntime = 'ecs_platfrom'",
            "worker.runtime: there is no runtime 'ecs_platfrom'; did you mean 'ecs_platform'?",
        ),
        (
            "[worker]\nruntime = 'ecs_udf'",
            "worker.runtime: ecs_udf is switched off; "
            "enable it by name: [runtimes.ecs_udf] enabled = true",
        ),
        (
            "[worker]\nruntime = 'lambda'",
            "worker.runtime: lambda is of kind lambda, and a worker needs a queue",
        ),
        ("[worker]\nslot = 1", "worker.slot: there is no such setting; did you mean slots?"),
        ("port = 1", "port: there is no such setting; did you mean ports?"),
        ("[rpc_pools.p]\nproviders = []", "rpc_pools.p.providers: it needs at least 1"),
        (
            "[[rpc_pools.p.providers]]\nname = 'n'\nurk = 'x'",
            "rpc_pools.p.providers.0.url: is missing; rpc_pools.p.providers.0.urk: there is no such"
            " setting; did you mean url?",
        ),
        ("[dispatcher]\nhistory_days = 0", "dispatcher.history_days: Input should be greater"),
        ("[dispatcher]\npressure_interval_s = 0", "dispatcher.pressure_interval_s: Input should"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert refused(tmp_path, text).startswith(said)


def test_every_wrong_field_of_the_runtimes_is_named(tmp_path: Path) -> None:
    text = "[runtimes.a]\nurl = 'http://x'\n[runtimes.b]\nkind = 'lambda'\nqueue = 'q'\n"
    assert "runtimes.a.url: " in refused(tmp_path, text)
    assert "runtimes.b.queue: " in refused(tmp_path, text)


def test_a_key_in_a_url_is_not_repeated(tmp_path: Path) -> None:
    text = "[runtimes.lambda]\nurl = 'gopher://k3y-of-mine'\n"
    assert "k3y-of-mine" not in refused(tmp_path, text)
    assert "k3y-of-mine" not in repr(settings(tmp_path, text.replace("gopher", "https")))


def test_the_engine_has_its_intervals(tmp_path: Path) -> None:
    found = settings(tmp_path, "")
    assert found.scratch_bucket == "trace-scratch"
    assert found.dispatcher.history_days == 90
    assert found.dispatcher.pressure_interval_s == 0.5
    assert found.dispatcher.metrics_interval_s == 5
