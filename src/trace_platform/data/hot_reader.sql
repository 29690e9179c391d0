-- name: export$
SELECT pg_export_snapshot();

-- name: tables
SELECT dataset_version, columns, key, first_block, last_block, announced_to, origin_block
  FROM hot_tables
 WHERE dataset_version = ANY(:versions);

-- name: table_bytes$
-- With what is stored out of line, without indexes.
SELECT pg_table_size(to_regclass(:name));
