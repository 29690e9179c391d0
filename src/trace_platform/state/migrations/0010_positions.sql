-- Freshness is what was read: positions instead of clocks, and a memory that outlives its tasks.

-- How many changes a generation of a dataset has seen. A change takes the next position under the lock
-- of this row, which is held until it is committed: whoever sees a position sees all changes up to it.
ALTER TABLE dataset_versions ADD COLUMN position bigint NOT NULL DEFAULT 0;
ALTER TABLE events
    ADD COLUMN position  bigint NOT NULL DEFAULT 0,
    -- Rows that were current gave way to what it is about.
    ADD COLUMN replaces  boolean NOT NULL DEFAULT false;
UPDATE events e SET position = n.position
  FROM (SELECT id, row_number() OVER (PARTITION BY dataset_version ORDER BY id) AS position
          FROM events) n
 WHERE n.id = e.id;
UPDATE dataset_versions v SET position = n.position
  FROM (SELECT dataset_version, max(position) AS position FROM events GROUP BY dataset_version) n
 WHERE n.dataset_version = v.version;

-- A dispatcher from before knows no positions: what it records is refused.
ALTER TABLE events ALTER COLUMN position DROP DEFAULT;

-- What the attempt had read that made it: [{input, version, start, end | key, position}]. Empty where
-- that was not recorded: then nothing is taken for granted.
ALTER TABLE partition_versions ADD COLUMN made_of jsonb NOT NULL DEFAULT '[]';

-- From which position on a generation is given what was said to be invalid of an input: it began to
-- read there. Kept while the generation can become current again.
CREATE TABLE generation_inputs (
    generation_id    uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    position         bigint NOT NULL,
    PRIMARY KEY (generation_id, dataset_version)
);
CREATE INDEX generation_inputs_version ON generation_inputs (dataset_version);
INSERT INTO generation_inputs (generation_id, dataset_version, position)
SELECT g.id, r.version,
       coalesce((SELECT max(e.position) FROM events e
                  WHERE e.dataset_version = r.version AND e.recorded_at < g.created_at), 0)
  FROM generations g
  JOIN (SELECT d.generation_id, v.version
          FROM dag_version_jobs d
          JOIN input_edges e ON e.job_id = d.job_id AND e.trigger
          JOIN dataset_versions v ON v.dataset_uuid = e.dataset_uuid
        UNION
        SELECT generation_id, dataset_version FROM subscriptions) r ON r.generation_id = g.id
 WHERE g.purged_at IS NULL;

-- Whether its task completed and is forgotten since.
ALTER TABLE task_inputs ADD COLUMN done boolean NOT NULL DEFAULT false;
UPDATE task_inputs i SET done = true
 WHERE NOT EXISTS (SELECT FROM tasks t WHERE t.id = i.task_id);
CREATE INDEX task_inputs_task ON task_inputs (task_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON generation_inputs TO trace_dispatcher;
