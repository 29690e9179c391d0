from __future__ import annotations

import socket

import pytest

from tests.support.corpus import corpus
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import load_settings
from trace_platform.domain.errors import InvalidConfig, SparkUnreachable
from trace_platform.operators.spark.master import (
    address_towards,
    check_master,
    is_local,
    reach_master,
    standalone_addresses,
)


@corpus(
    "master",
    [
        *("local", "local[*]", "local[4]", "local[*,3]", "local-cluster[2,1,512]", "yarn"),
        *("spark://a:7077", "spark://a.b:7077,[::1]:7078", "k8s://https://10.0.0.1:6443"),
    ],
)
def test_masters_that_spark_knows_are_taken(master: str) -> None:
    assert check_master(master) == master


@pytest.mark.parametrize("master", ["", "spark://", "spark://a", "a:7077", "http://a:7077"])
def test_anything_else_is_refused_with_what_would_be_right(master: str, tmp_path: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_master(master)
    assert "spark://host:7077" in str(caught.value.hint)
    with pytest.raises(InvalidConfig, match=r"^TRACE_SPARK_MASTER: .*spark://host:7077"):
        load_settings(Home.at(str(tmp_path)), {"TRACE_SPARK_MASTER": master})


def test_a_cluster_is_not_local() -> None:
    assert [is_local(m) for m in ("local", "local[2]")] == [True, True]
    assert [is_local(m) for m in ("local-cluster[1,1,512]", "spark://a:1")] == [False, False]
    assert standalone_addresses("spark://a:1,[::1]:2") == [("a", 1), ("::1", 2)]
    assert standalone_addresses("yarn") == []


def test_a_master_is_reached_when_one_of_several_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        port = open_port.getsockname()[1]
        reach_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
        assert address_towards(f"spark://127.0.0.1:{port}") == "127.0.0.1"
    reach_master("yarn")
    assert address_towards("yarn") is None


def test_a_master_that_does_not_answer_is_named() -> None:
    with pytest.raises(SparkUnreachable) as caught:
        reach_master("spark://127.0.0.1:1")
    said = "the Spark master spark://127.0.0.1:1 cannot be reached: Connection refused"
    assert caught.value.message == said
    assert caught.value.retryable
