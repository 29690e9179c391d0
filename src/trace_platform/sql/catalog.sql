-- The views of catalog.py: names, order and types of columns are DuckDB's. What a dataset has no
-- word for is NULL; `is_masked` alone is ours.

CREATE VIEW trace_catalog.show_tables AS
SELECT name FROM trace_catalog.datasets ORDER BY name;

CREATE VIEW trace_catalog.show_all_tables AS
SELECT 'memory' AS database,
       'main' AS schema,
       d.name,
       coalesce(list(c.name ORDER BY c.position) FILTER (c.name IS NOT NULL), []) AS column_names,
       coalesce(list(c.type ORDER BY c.position) FILTER (c.name IS NOT NULL), []) AS column_types,
       false AS temporary
  FROM trace_catalog.datasets AS d
  LEFT JOIN trace_catalog.dataset_columns AS c ON c.table_name = d.name
 GROUP BY d.name
 ORDER BY d.name;

CREATE VIEW trace_catalog.schemata AS
SELECT 'memory' AS catalog_name,
       'main' AS schema_name,
       'duckdb' AS schema_owner,
       NULL::VARCHAR AS default_character_set_catalog,
       NULL::VARCHAR AS default_character_set_schema,
       NULL::VARCHAR AS default_character_set_name,
       NULL::VARCHAR AS sql_path;

CREATE VIEW trace_catalog.tables AS
SELECT 'memory' AS table_catalog,
       'main' AS table_schema,
       name AS table_name,
       'BASE TABLE' AS table_type,
       NULL::VARCHAR AS self_referencing_column_name,
       NULL::VARCHAR AS reference_generation,
       NULL::VARCHAR AS user_defined_type_catalog,
       NULL::VARCHAR AS user_defined_type_schema,
       NULL::VARCHAR AS user_defined_type_name,
       'NO' AS is_insertable_into,
       'NO' AS is_typed,
       NULL::VARCHAR AS commit_action,
       comment AS "TABLE_COMMENT"
  FROM trace_catalog.datasets
 ORDER BY name;

CREATE VIEW trace_catalog.columns AS
SELECT 'memory' AS table_catalog,
       'main' AS table_schema,
       table_name,
       name AS column_name,
       position AS ordinal_position,
       NULL::VARCHAR AS column_default,
       'YES' AS is_nullable,
       type AS data_type,
       NULL::INTEGER AS character_maximum_length,
       NULL::INTEGER AS character_octet_length,
       NULL::INTEGER AS numeric_precision,
       NULL::INTEGER AS numeric_precision_radix,
       NULL::INTEGER AS numeric_scale,
       NULL::INTEGER AS datetime_precision,
       NULL::VARCHAR AS "COLUMN_COMMENT",
       is_masked
  FROM trace_catalog.dataset_columns
 ORDER BY table_name, position;

CREATE VIEW trace_catalog.duckdb_tables AS
SELECT 'memory' AS database_name,
       'main' AS schema_name,
       name AS table_name,
       comment,
       false AS internal,
       false AS temporary,
       false AS has_primary_key,
       rows AS estimated_size,
       (SELECT count(*) FROM trace_catalog.dataset_columns AS c WHERE c.table_name = d.name)
           AS column_count,
       0::BIGINT AS index_count,
       0::BIGINT AS check_constraint_count,
       NULL::VARCHAR AS sql
  FROM trace_catalog.datasets AS d
 ORDER BY name;

CREATE VIEW trace_catalog.duckdb_columns AS
SELECT 'memory' AS database_name,
       'main' AS schema_name,
       table_name,
       name AS column_name,
       position AS column_index,
       NULL::VARCHAR AS comment,
       false AS internal,
       NULL::VARCHAR AS column_default,
       true AS is_nullable,
       type AS data_type,
       NULL::INTEGER AS character_maximum_length,
       NULL::INTEGER AS numeric_precision,
       NULL::INTEGER AS numeric_precision_radix,
       NULL::INTEGER AS numeric_scale,
       is_masked
  FROM trace_catalog.dataset_columns
 ORDER BY table_name, position;
