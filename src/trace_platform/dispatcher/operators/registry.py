"""The Dispatcher's own operators by name."""

from __future__ import annotations

import difflib

from trace_platform.dispatcher.operators.aggregator import Aggregator
from trace_platform.dispatcher.operators.contract import EventOperator
from trace_platform.dispatcher.operators.range_aggregator import RangeAggregator
from trace_platform.dispatcher.operators.wire_tap import WireTap
from trace_platform.domain.errors import InvalidConfig

OPERATORS: dict[str, type[EventOperator]] = {
    each.name: each for each in (Aggregator, RangeAggregator, WireTap)
}


def load(name: str) -> type[EventOperator]:
    if name not in OPERATORS:
        near = difflib.get_close_matches(name, OPERATORS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(OPERATORS))}"
        raise InvalidConfig(f"there is no operator '{name}' with runtime: dispatcher", hint=hint)
    return OPERATORS[name]
