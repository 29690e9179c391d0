"""What an operator of the Dispatcher's own says of itself, as far as a check of a DAG needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

from trace_platform.operators.accepts import Accepts, Updates
from trace_platform.operators.contract import OperatorConfig


class DeclaredOperator(Protocol):
    name: ClassVar[str]
    Config: ClassVar[type[OperatorConfig]]
    # The outputs it emits to, by index; None when the job's YAML alone names them.
    output_names: ClassVar[tuple[str, ...] | None]
    # What wakes it, and the updates of its outputs; None: those that woke it.
    accepts: ClassVar[Accepts]
    emits: ClassVar[Updates | None]

    @staticmethod
    def problems(inputs: int, config: Any) -> Iterator[str]:
        """What is wrong with a valid config in a job that reads so many datasets."""
