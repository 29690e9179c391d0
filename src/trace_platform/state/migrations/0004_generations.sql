-- Versions of a DAG beside each other: generations, deploys, what was routed to whom, invalidations,
-- backfills, and the sources that run by themselves.

-- What one job makes as long as it means the same: its definition and that of everything above it.
-- Versions of a DAG that agree on that share the generation, and with it the data.
CREATE TABLE generations (
    id           uuid PRIMARY KEY DEFAULT uuid7(),
    org_id       uuid NOT NULL REFERENCES orgs,
    dag_name     text NOT NULL,
    job_name     text NOT NULL,
    fingerprint  text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Once everything upstream had been worked through: before that it was never read.
    built_at     timestamptz,
    -- Its data is gone: it cannot be rolled back to.
    purged_at    timestamptz
);
CREATE UNIQUE INDEX generations_kept ON generations (org_id, dag_name, job_name, fingerprint)
    WHERE purged_at IS NULL;

INSERT INTO generations (org_id, dag_name, job_name, fingerprint, built_at)
SELECT DISTINCT org_id, dag_name, job_name, 'before generations', clock_timestamp() FROM datasets;

ALTER TABLE dataset_versions ADD COLUMN generation_id uuid REFERENCES generations;
UPDATE dataset_versions v SET generation_id = g.id
  FROM datasets d JOIN generations g USING (org_id, dag_name, job_name)
 WHERE d.uuid = v.dataset_uuid;
ALTER TABLE dataset_versions ALTER COLUMN generation_id SET NOT NULL;
CREATE UNIQUE INDEX dataset_versions_generation ON dataset_versions (generation_id, dataset_uuid);
CREATE INDEX dataset_versions_dataset ON dataset_versions (dataset_uuid);

ALTER TABLE dag_version_jobs ADD COLUMN generation_id uuid REFERENCES generations;
UPDATE dag_version_jobs v SET generation_id = g.id
  FROM jobs j JOIN generations g ON g.org_id = j.org_id AND g.dag_name = j.dag_name
                                AND g.job_name = j.name
 WHERE j.id = v.job_id;
ALTER TABLE dag_version_jobs ALTER COLUMN generation_id SET NOT NULL;

-- The names that a version publishes, with what it says of them.
CREATE TABLE dag_version_publishes (
    dag_version_id  uuid NOT NULL REFERENCES dag_versions,
    name            text NOT NULL,
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    metadata        jsonb NOT NULL,
    PRIMARY KEY (dag_version_id, name)
);
INSERT INTO dag_version_publishes (dag_version_id, name, dataset_uuid, metadata)
SELECT a.dag_version_id, d.name, d.uuid, '{}'
  FROM active_dags a JOIN datasets d ON d.org_id = a.org_id AND d.dag_name = a.dag_name
 WHERE d.name IS NOT NULL;
ALTER TABLE datasets ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}';

-- Read by its published name: whoever makes it.
ALTER TABLE input_edges ADD COLUMN dataset_name text;
ALTER TABLE jobs ADD COLUMN definition jsonb NOT NULL DEFAULT '{}';

-- Outputs that go into a dataset of several producers instead of one of their own.
CREATE TABLE shared_outputs (
    org_id        uuid NOT NULL REFERENCES orgs,
    dag_name      text NOT NULL,
    job_name      text NOT NULL,
    output_index  integer NOT NULL,
    dataset_uuid  uuid NOT NULL REFERENCES datasets,
    PRIMARY KEY (org_id, dag_name, job_name, output_index)
);

-- Building -> CutOver | Failed | Canceled. A rollback is CutOver from the start.
CREATE TABLE deploys (
    id            uuid PRIMARY KEY DEFAULT uuid7(),
    org_id        uuid NOT NULL REFERENCES orgs,
    dag_name      text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('deploy', 'rollback')),
    from_version  uuid REFERENCES dag_versions,
    to_version    uuid NOT NULL REFERENCES dag_versions,
    status        text NOT NULL CHECK (status IN ('Building', 'CutOver', 'Failed', 'Canceled')),
    -- What is built: the generations that the version before does not have.
    building      uuid[] NOT NULL,
    error         text,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz
);
CREATE UNIQUE INDEX deploys_building ON deploys (org_id, dag_name) WHERE status = 'Building';
CREATE INDEX deploys_of_dag ON deploys (org_id, dag_name, id);

-- Which generation of a dataset is routed to which job, writing which generation: what routing reads.
-- Made anew, as a whole, whenever a version starts to build, cuts over, fails or is rolled back.
CREATE TABLE subscriptions (
    dataset_version  uuid NOT NULL,
    generation_id    uuid NOT NULL,
    input_index      integer NOT NULL,
    org_id           uuid NOT NULL,
    dataset_uuid     uuid NOT NULL,
    job_id           uuid NOT NULL REFERENCES jobs,
    filter           jsonb,
    -- A rebuild is under way: new events wait until it ends, one way or the other.
    held             boolean NOT NULL,
    PRIMARY KEY (dataset_version, generation_id, input_index)
);
CREATE INDEX subscriptions_generation ON subscriptions (generation_id);
CREATE INDEX subscriptions_job ON subscriptions (job_id);
INSERT INTO subscriptions
SELECT d.current_version, v.generation_id, e.input_index, j.org_id, d.uuid, j.id, e.filter, false
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'reactive'
  JOIN input_edges e ON e.job_id = j.id
  JOIN datasets d ON d.uuid = e.dataset_uuid;

ALTER TABLE tasks
    ADD COLUMN generation_id       uuid,
    -- Its generation is not built or read any more. It comes back when that one does.
    ADD COLUMN superseded          boolean NOT NULL DEFAULT false,
    -- This attempt ends, or may do so, and another follows: the definition of a source changed, or the
    -- attempt was told to stop before its generation counted again.
    ADD COLUMN drain_requested_at  timestamptz,
    ADD COLUMN backfill_id         uuid;
UPDATE tasks t SET generation_id = g.id
  FROM jobs j JOIN generations g ON g.org_id = j.org_id AND g.dag_name = j.dag_name
                                AND g.job_name = j.name
 WHERE j.id = t.job_id;
ALTER TABLE tasks ALTER COLUMN generation_id SET NOT NULL;
-- Definitions of one generation follow each other: a task that one of them had is not made again.
ALTER TABLE tasks DROP CONSTRAINT tasks_job_id_dedupe_key_key;
DELETE FROM tasks t USING tasks newer
 WHERE newer.generation_id = t.generation_id AND newer.dedupe_key = t.dedupe_key AND newer.id > t.id;
CREATE UNIQUE INDEX tasks_identity ON tasks (generation_id, dedupe_key);
DROP INDEX tasks_absorbing;
UPDATE tasks SET absorbs = NULL WHERE absorbs IS NOT NULL;
CREATE UNIQUE INDEX tasks_absorbing ON tasks (generation_id, absorbs) WHERE absorbs IS NOT NULL;
CREATE INDEX tasks_ended_badly_of ON tasks (generation_id, id) WHERE status IN ('Failed', 'Canceled');
-- What has not ended: each branch reads one of the partial indexes, so that history costs nothing.
CREATE VIEW live_tasks AS
    SELECT * FROM tasks WHERE status = 'Queued' AND NOT pending_backpressure
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Queued' AND pending_backpressure
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Running'
    UNION ALL
    SELECT * FROM tasks WHERE status = 'Failed' AND next_retry_at IS NOT NULL;
CREATE INDEX tasks_of_backfill ON tasks (backfill_id, status) WHERE backfill_id IS NOT NULL;

ALTER TABLE correlations ADD COLUMN generation_id uuid;
UPDATE correlations c SET generation_id = g.id
  FROM jobs j JOIN generations g ON g.org_id = j.org_id AND g.dag_name = j.dag_name
                                AND g.job_name = j.name
 WHERE j.id = c.job_id;
DELETE FROM correlations c USING correlations other
 WHERE other.generation_id = c.generation_id AND other.key = c.key AND other.job_id > c.job_id;
ALTER TABLE correlations DROP CONSTRAINT correlations_pkey,
    ADD PRIMARY KEY (generation_id, key);

ALTER TABLE events
    ADD COLUMN materialisation  uuid,
    -- The tasks that follow from it are no more urgent than what caused it.
    ADD COLUMN priority         smallint,
    ADD COLUMN invalidation_id  uuid;
UPDATE events e SET materialisation = p.id
  FROM partition_versions p
 WHERE e.dataset_version = p.dataset_version
   AND e.identity = 'partition:' || p.partition_key || '@' || p.id;
-- What no partition stands for: the updates of sources, and what was said to be invalid.
CREATE INDEX events_keyed ON events (dataset_version, partition_key, id)
    WHERE materialisation IS NULL AND partition_key IS NOT NULL;
CREATE INDEX events_cursors ON events (dataset_version, id)
    WHERE materialisation IS NULL AND partition_key IS NULL;
-- A webhook's delivery is written by no task.
ALTER TABLE partition_versions ALTER COLUMN task_id DROP NOT NULL, ALTER COLUMN attempt DROP NOT NULL;

-- Memoisation: the event that a generation was given, and the task that has it. One that is here is
-- never routed there again.
CREATE TABLE task_inputs (
    event_id       bigint NOT NULL,
    generation_id  uuid NOT NULL,
    task_id        uuid,
    PRIMARY KEY (event_id, generation_id)
);
INSERT INTO task_inputs (event_id, generation_id, task_id)
SELECT e.id, s.generation_id, t.id
  FROM events e
  JOIN subscriptions s ON s.dataset_version = e.dataset_version
  LEFT JOIN tasks t ON t.generation_id = s.generation_id
                   AND t.dedupe_key = e.dataset_version || ':' || e.identity
 WHERE e.routed_at IS NOT NULL
    ON CONFLICT DO NOTHING;

-- A part of a dataset that is not right any more. `remade`: its producer rewrote it, and whoever read
-- it has to again; else the producer has to make it anew first.
CREATE TABLE data_invalidations (
    id               uuid PRIMARY KEY DEFAULT uuid7(),
    org_id           uuid NOT NULL,
    dataset_uuid     uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    scope            text NOT NULL CHECK (scope IN ('partition', 'row_range')),
    partition_key    text,
    range_start      bigint,
    range_end        bigint,
    remade           boolean NOT NULL,
    reason           text NOT NULL,
    cause_task_id    uuid,
    cause_attempt    integer,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    routed_at        timestamptz,
    -- One that overlaps it stands for both.
    merged_into      uuid,
    processed_at     timestamptz
);
CREATE INDEX data_invalidations_due ON data_invalidations (dataset_version, id) WHERE routed_at IS NULL;
CREATE INDEX data_invalidations_open ON data_invalidations (dataset_version, id)
    WHERE processed_at IS NULL;
CREATE INDEX data_invalidations_of_dataset ON data_invalidations (dataset_uuid, id);

-- The tasks that an invalidation became; it is processed when all of them completed.
CREATE TABLE invalidation_tasks (
    invalidation_id  uuid NOT NULL,
    task_id          uuid NOT NULL,
    processed_at     timestamptz,
    PRIMARY KEY (task_id, invalidation_id)
);
CREATE INDEX invalidation_tasks_open ON invalidation_tasks (invalidation_id)
    WHERE processed_at IS NULL;

-- Running -> Completed | Canceled, with pauses.
CREATE TABLE backfills (
    id             uuid PRIMARY KEY DEFAULT uuid7(),
    org_id         uuid NOT NULL REFERENCES orgs,
    dag_name       text NOT NULL,
    job_name       text NOT NULL,
    generation_id  uuid NOT NULL REFERENCES generations,
    range_start    bigint NOT NULL,
    range_end      bigint NOT NULL,
    -- Also what is up to date.
    force          boolean NOT NULL,
    status         text NOT NULL CHECK (status IN ('Running', 'Paused', 'Completed', 'Canceled')),
    max_in_flight  integer NOT NULL CHECK (max_in_flight > 0),
    -- The inputs it goes through, and how far it is.
    event_ids      bigint[] NOT NULL,
    done_events    integer NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at       timestamptz
);
CREATE INDEX backfills_alive ON backfills (id) WHERE status IN ('Running', 'Paused');

-- Of cron sources: by which tick everything before it is done. By name, so that a deploy does not
-- forget it.
CREATE TABLE source_ticks (
    org_id     uuid NOT NULL REFERENCES orgs,
    dag_name   text NOT NULL,
    job_name   text NOT NULL,
    last_tick  timestamptz NOT NULL,
    PRIMARY KEY (org_id, dag_name, job_name)
);

CREATE TABLE column_lineage (
    dataset_uuid    uuid NOT NULL REFERENCES datasets,
    column_name     text NOT NULL,
    -- A dataset's published name or JOB.OUTPUT, and a column of it.
    input_dataset   text NOT NULL,
    input_column    text NOT NULL,
    PRIMARY KEY (dataset_uuid, column_name, input_dataset, input_column)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON generations, dag_version_publishes, shared_outputs, deploys,
    subscriptions, task_inputs, data_invalidations, invalidation_tasks, backfills, source_ticks,
    column_lineage TO trace_dispatcher;
GRANT SELECT ON live_tasks TO trace_dispatcher;
GRANT DELETE ON partition_versions, dag_version_jobs TO trace_dispatcher;

-- Datasets: what their generations hold now, and what of them was purged.

-- What a generation of a dataset holds, as events: one for each current partition, and the updates
-- that no partition stands for. Of what was said of one partition several times the last counts. Of
-- cursors the newest are asked for (all of them with NULL). Each event is looked up by itself, never
-- joined: events of partitions that gave way cost nothing.
CREATE FUNCTION current_events(of_version uuid, newest_cursors bigint) RETURNS SETOF events
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT e.*
      FROM partition_versions p CROSS JOIN LATERAL (
           SELECT * FROM events
            WHERE dataset_version = p.dataset_version
              AND identity = 'partition:' || p.partition_key || '@' || p.id OFFSET 0) e
     WHERE p.dataset_version = of_version AND p.superseded_at IS NULL
    UNION ALL
    SELECT e.* FROM events e
     WHERE e.dataset_version = of_version AND e.materialisation IS NULL
       AND e.partition_key IS NOT NULL
       AND (e.invalidation_id IS NOT NULL OR NOT EXISTS (
            SELECT FROM events n
             WHERE n.dataset_version = e.dataset_version AND n.partition_key = e.partition_key
               AND n.materialisation IS NULL AND n.partition_key IS NOT NULL
               AND n.invalidation_id IS NULL AND n.id > e.id))
    UNION ALL
    SELECT c.* FROM (
           SELECT * FROM events
            WHERE dataset_version = of_version AND materialisation IS NULL AND partition_key IS NULL
            ORDER BY id DESC LIMIT newest_cursors) c;
$$;
CREATE INDEX dag_version_jobs_generation ON dag_version_jobs (generation_id);

-- Its files are gone too. Until then they are deleted again, whoever was interrupted.
ALTER TABLE generations ADD COLUMN cleaned_at timestamptz;
-- For purging; what is current has indexes of its own.
CREATE INDEX partition_versions_gone ON partition_versions (dataset_version)
    WHERE superseded_at IS NOT NULL;
CREATE INDEX generations_unclean ON generations (id) WHERE purged_at IS NOT NULL AND cleaned_at IS NULL;
GRANT EXECUTE ON FUNCTION current_events(uuid, bigint) TO trace_dispatcher;

-- Invalidations and backfills: why one ended as it did, and how the newest are found.
ALTER TABLE data_invalidations ADD COLUMN note text;
CREATE INDEX data_invalidations_newest ON data_invalidations (org_id, created_at);
CREATE INDEX invalidation_tasks_of ON invalidation_tasks (invalidation_id);
ALTER TABLE backfills ADD COLUMN ended_because text;
CREATE INDEX backfills_newest ON backfills (org_id, created_at);
