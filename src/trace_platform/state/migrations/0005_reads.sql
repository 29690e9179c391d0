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
