-- Inputs that are read and wake nobody, and tasks that are parts of others.

ALTER TABLE input_edges ADD COLUMN trigger boolean NOT NULL DEFAULT true;

-- Which generation of a dataset is read, without being woken by it, by whoever writes a generation.
-- Made anew together with the subscriptions.
CREATE TABLE reads (
    generation_id    uuid NOT NULL,
    input_index      integer NOT NULL,
    org_id           uuid NOT NULL,
    dataset_uuid     uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    filter           jsonb,
    PRIMARY KEY (generation_id, input_index)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON reads TO trace_dispatcher;

-- The first block of a generation that is a table: what is older lies in files.
ALTER TABLE dataset_versions ADD COLUMN table_start bigint;

-- How far a dataset's updates reach, and what covers a range of it.
CREATE INDEX events_ranges ON events (dataset_version, range_end) WHERE range_end IS NOT NULL;
CREATE INDEX events_long_ranges ON events (dataset_version, range_end)
    WHERE range_end - range_start >= 10000;

-- Of a task that another was split into: that one. What it was given stands for all its parts.
ALTER TABLE tasks ADD COLUMN part_of uuid;
CREATE INDEX tasks_parts ON tasks (part_of) WHERE part_of IS NOT NULL;
CREATE OR REPLACE VIEW live_tasks AS
    SELECT * FROM tasks WHERE status = 'Queued' AND NOT pending_backpressure
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Queued' AND pending_backpressure
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Running'
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Failed' AND next_retry_at IS NOT NULL;

-- Of what is built: the generations whose turn comes when those are built that they only read.
ALTER TABLE deploys ADD COLUMN waiting uuid[] NOT NULL DEFAULT '{}';
