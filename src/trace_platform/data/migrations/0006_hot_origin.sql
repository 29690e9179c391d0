-- The lowest block that a table ever had. Rows below `first_block` left it, and are owed by files from
-- here on. Of a table that was trimmed before this was kept nobody knows it.
ALTER TABLE hot_tables ADD COLUMN origin_block bigint;
UPDATE hot_tables SET origin_block = first_block;
GRANT UPDATE (origin_block) ON hot_tables TO trace_data_writer;
GRANT SELECT (origin_block) ON hot_tables TO trace_query;
