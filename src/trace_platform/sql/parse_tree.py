"""The words of DuckDB's parse tree that a query may say. Everything else is refused."""

from __future__ import annotations

_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_TABLE_NODES = frozenset(
    {
        "BASE_TABLE",
        "SUBQUERY",
        "JOIN",
        "TABLE_FUNCTION",
        "EMPTY",
        "EXPRESSION_LIST",
        "PIVOT",
        "SHOW_REF",
    }
)
_MODIFIERS = frozenset(
    {
        "ORDER_MODIFIER",
        "LIMIT_MODIFIER",
        "DISTINCT_MODIFIER",
        "ORDER_DEFAULT",
        "ASCENDING",
        "DESCENDING",
    }
)
NODES = _QUERY_NODES | _TABLE_NODES | _MODIFIERS
EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "LAMBDA",
        "OPERATOR",
        "POSITIONAL_REFERENCE",
        "STAR",
        "SUBQUERY",
        "TYPE",
        "WINDOW",
    }
)

# What all these are made of.
_PARTS = """
aggregate_handling aggregates alias aliases arg_orders arguments at_clause case_checks catalog
catalog_name child children class collation column column_name_alias column_names columns
comparison_type condition cte_map cte_name default_expr delim_flipped distinct distinct_on_targets
duplicate_eliminated_columns else_expr end end_expr entries exclude_clause exclude_list
expected_names expected_types export_state expr expression filter filter_expr from_table function
function_name group_expressions group_sets groups has_ignore_nulls having id ignore_nulls
include_nulls index input is_implicit is_null is_operator is_percentage join_type key key_targets
kind left lhs limit limit_type literal lower map materialized method modifiers name
named_param_map nearest_approx nearest_count nearest_order_type node null_order offset offset_expr
order_bys orders partitions path payload_aggregates pivot_enum pivot_expressions pivots
qualified_exclude_list qualified_name qualify query query_location query_location_length
query_node ranking_expression ref_type relation_name rename_list repeatable replace_list right
sample sample_rate sample_size schema schema_name seed select_list setop_all setop_type show_type
source star_expr start start_expr subquery subquery_type syntax_type table table_name text
then_expr try_cast type type_expr type_info type_name union_all unit unpivot_names upper
using_columns value values when_expr where_clause with_ordinality
"""
PARTS = frozenset(_PARTS.split())
