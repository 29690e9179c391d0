-- Storage: the columns of a generation, and what is left in the object store by who never committed.

-- What the commits to a generation hold: the columns by first appearance, and the hash of the schema
-- that was seen last. NULL until a commit says so.
ALTER TABLE dataset_versions ADD COLUMN columns jsonb, ADD COLUMN schema_hash text;

-- Whether anything points at a prefix. By hash: only equality is asked for, and locations are long.
CREATE INDEX partition_versions_location ON partition_versions USING hash (location);

-- Attempts that ended without success: what they staged is nobody's. Gone once it is deleted.
CREATE TABLE leftovers (
    task_id      uuid NOT NULL,
    attempt      integer NOT NULL,
    ended_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Somebody deletes what it left, until then.
    taken_until  timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (task_id, attempt)
);
CREATE INDEX leftovers_due ON leftovers (ended_at);

-- How far the walk through the object store is. One dispatcher at a time goes on with it.
CREATE TABLE garbage_walk (
    id           boolean PRIMARY KEY DEFAULT true CHECK (id),
    position     text NOT NULL DEFAULT '',
    taken_until  timestamptz NOT NULL DEFAULT '-infinity',
    -- The newest task whose row was pruned. What a newer one wrote of which there is no row is not
    -- ours to delete: the database may have come from a backup.
    forgotten_to uuid
);
INSERT INTO garbage_walk DEFAULT VALUES;

GRANT SELECT, INSERT, UPDATE, DELETE ON leftovers TO trace_dispatcher;
GRANT SELECT, UPDATE ON garbage_walk TO trace_dispatcher;
