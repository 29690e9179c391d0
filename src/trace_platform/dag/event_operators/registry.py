"""The Dispatcher's own operators by name, as a DAG is checked against them."""

from __future__ import annotations

from trace_platform.dag.event_operators.aggregator import Aggregator
from trace_platform.dag.event_operators.contract import DeclaredOperator
from trace_platform.dag.event_operators.range_aggregator import RangeAggregator
from trace_platform.dag.event_operators.wire_tap import WireTap
from trace_platform.domain.alike import meant
from trace_platform.domain.errors import InvalidConfig

OPERATORS: dict[str, type[DeclaredOperator]] = {
    each.name: each for each in (Aggregator, RangeAggregator, WireTap)
}


def load(name: str) -> type[DeclaredOperator]:
    if name not in OPERATORS:
        hint = meant(name, OPERATORS) or f"there are {', '.join(sorted(OPERATORS))}"
        raise InvalidConfig(f"there is no operator '{name}' with runtime: dispatcher", hint=hint)
    return OPERATORS[name]
