"""What Spark's own parser makes of a statement, looked at before Spark acts on it.

The statement was read by another parser, before the deploy and before this. Where the two differ it
is Spark's that counts: a command would run as soon as it is analysed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trace_platform.domain.errors import InvalidQuery
from trace_platform.sql.spark import functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."
# The kinds of plans that a SELECT is made of; whatever else there is, or comes, is refused.
_PLANS = frozenset(
    {
        *(
            _LOGICAL + name
            for name in (
                "Aggregate", "CTERelationDef", "CTERelationRef", "Distinct", "Except", "Expand",
                "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin",
                "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "Pivot", "Project",
                "Range", "Repartition", "RepartitionByExpression", "Sample", "Sort",
                "SubqueryAlias", "Tail", "Union", "UnionLoop", "UnresolvedHint", "UnresolvedWith",
                "Unpivot", "Window", "WithWindowDefinition", "LimitAll",
            )
        ),
        *(
            _ANALYSIS + name
            for name in (
                "UnresolvedHaving", "UnresolvedInlineTable", "UnresolvedRelation",
                "UnresolvedSubqueryColumnAliases", "UnresolvedTableValuedFunction",
                "UnresolvedTVFAliases", "ResolvedInlineTable",
            )
        ),
    }
)  # fmt: skip
_PLAN = _LOGICAL + "LogicalPlan"
_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
_MAX_NODES = 20_000
_MAX_REMEMBERED = 1_000
# Statements that are right: every task of a job runs the same text.
_remembered: set[str] = set()


def refuse_plan(spark: SparkSession, sql: str) -> None:
    """Raise InvalidQuery for what is no SELECT over views."""
    if sql in _remembered:
        return
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    tree = _Tree(spark.sparkContext._gateway)
    for count, node in enumerate(tree.nodes(plan)):
        if count > _MAX_NODES:
            raise InvalidQuery("the statement is too large", hint="make several steps of it")
        _refuse(node, is_plan=tree.is_plan(node))
    if len(_remembered) >= _MAX_REMEMBERED:
        _remembered.clear()
    _remembered.add(sql)


def _refuse(node: Any, *, is_plan: bool) -> None:
    kind = node.getClass().getName()
    if is_plan and kind not in _PLANS:
        raise InvalidQuery(f"a step is one SELECT, and this has {kind.rpartition('.')[2]}")
    if kind == _ANALYSIS + "UnresolvedRelation" and node.multipartIdentifier().size() != 1:
        name = node.multipartIdentifier().mkString(".")
        raise InvalidQuery(f"{name} is no input: SQL reads inputs and earlier steps by name")
    if kind == _ANALYSIS + "UnresolvedTableValuedFunction":
        _refuse_function(node.name())
    if kind == _ANALYSIS + "UnresolvedFunction":
        _refuse_function(node.nameParts())


def _refuse_function(parts: Any) -> None:
    name = parts.mkString(".").lower()
    if name not in functions.allowed():
        raise InvalidQuery(f"{name} may not be called")


class _Tree:
    """Of objects of the JVM."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    def nodes(self, plan: Any) -> Iterator[Any]:
        waiting = [plan]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [*_all(node.children()), *_all(node.innerChildren())]
            if self.is_plan(node):
                waiting += _all(node.expressions())
            elif self._is_a(node, _SUBQUERY):
                waiting.append(node.plan())

    def is_plan(self, node: Any) -> bool:
        return self._is_a(node, _PLAN)

    def _is_a(self, node: Any, kind: str) -> bool:
        from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

        return bool(is_instance_of(self._gateway, node, kind))


def _all(found: Any) -> list[Any]:
    return [found.apply(n) for n in range(found.size())]
