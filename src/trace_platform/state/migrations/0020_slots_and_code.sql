-- Runs of sources have slots of their own: whoever runs all the time takes none from tasks that end.
ALTER TABLE workers ADD COLUMN source_slots integer NOT NULL DEFAULT 0;

-- Code that lies beside DAG files, as it was deployed: what a job's operator names by its SHA-256. It
-- is never changed, and stays as long as versions do.
CREATE TABLE operator_code (
    digest     text PRIMARY KEY CHECK (digest ~ '^[0-9a-f]{64}$'),
    content    bytea NOT NULL CHECK (length(content) <= 2000000),
    stored_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT ON operator_code TO trace_dispatcher;
