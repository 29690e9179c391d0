"""The Dispatcher's own operators by name, as they run."""

from __future__ import annotations

from trace_platform.dag.event_operators import registry
from trace_platform.dispatcher.operators.aggregator import Aggregator
from trace_platform.dispatcher.operators.contract import EventOperator
from trace_platform.dispatcher.operators.range_aggregator import RangeAggregator
from trace_platform.dispatcher.operators.wire_tap import WireTap

OPERATORS: dict[str, type[EventOperator]] = {
    each.name: each for each in (Aggregator, RangeAggregator, WireTap)
}


def load(name: str) -> type[EventOperator]:
    """Raise InvalidConfig for a name that no operator has."""
    return OPERATORS[registry.load(name).name]
