"""A named error that is raised on an executor reaches the driver as itself."""

from __future__ import annotations

import pytest

from tests.support.corpus import corpus
from tests.support.raising_source import PLACES, SAID
from trace_platform.domain.errors import MalformedBlock
from trace_platform.operators.spark.failures import readable_failures
from trace_platform.operators.spark.session import SparkRuntime

pytestmark = pytest.mark.spark


@corpus("place", PLACES)
def test_a_named_error_arrives_whole_from(place: str, spark_runtime: SparkRuntime) -> None:
    with pytest.raises(MalformedBlock) as caught, readable_failures(lambda: None):
        PLACES[place](spark_runtime.session())
    assert caught.value.__reduce__() == SAID.__reduce__()
    assert caught.value.retryable
