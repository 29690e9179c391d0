-- name: table_bytes$
-- With what is stored out of line, without indexes.
SELECT pg_table_size(to_regclass(:name));
