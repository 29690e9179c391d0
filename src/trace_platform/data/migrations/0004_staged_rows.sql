-- Staging tables are not logged: a crash of Postgres empties them. How many rows their parts had when
-- they were sealed tells.
ALTER TABLE staging_tables ADD COLUMN rows bigint;
GRANT UPDATE (rows) ON staging_tables TO trace_data_writer;
