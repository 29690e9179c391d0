from __future__ import annotations

import subprocess
import sys

import pytest

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators import registry


def test_every_operator_loads_under_its_own_name() -> None:
    for name in registry.OPERATORS:
        operator = registry.load(name)
        assert operator.name == name
        assert operator.Config.model_config["extra"] == "forbid"


def test_a_near_miss_is_told_what_was_meant() -> None:
    with pytest.raises(InvalidConfig) as caught:
        registry.load("cryo_ingets")
    assert caught.value.hint == "did you mean cryo_ingest?"


def test_an_unknown_operator_is_told_what_there_is() -> None:
    with pytest.raises(InvalidConfig) as caught:
        registry.load("zzz")
    assert "range_splitter" in (caught.value.hint or "")


def test_the_registry_itself_loads_neither_spark_nor_arrow() -> None:
    script = (
        "import sys, trace_platform.operators.registry as r;"
        "assert not {'pyspark', 'pyarrow', 'numpy'} & set(sys.modules);"
        "r.load('range_splitter'); r.load('cryo_ingest');"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
