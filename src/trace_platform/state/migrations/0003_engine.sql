-- The execution engine: fair claims under limits, strategies, backpressure, buffers, correlations.

-- Version 7: ids made together lie together, so the newest tasks are one end of the primary key and
-- history is never touched by what happens now. (Postgres 18 has its own; 15 to 17 do not.)
CREATE FUNCTION uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(overlay(
               uuid_send(gen_random_uuid())
               PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
               FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
$$;
-- The smallest id of that moment.
CREATE FUNCTION uuid7_at(moment timestamptz) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT encode(substring(int8send((extract(epoch FROM moment) * 1000)::bigint) FROM 3)
                  || '\x70008000000000000000'::bytea, 'hex')::uuid;
$$;

ALTER TABLE jobs DROP CONSTRAINT jobs_execution_strategy_check;
ALTER TABLE jobs
    ADD CONSTRAINT jobs_execution_strategy_check
        CHECK (execution_strategy IN ('PerUpdate', 'PerPartition', 'Bulk')),
    ADD COLUMN max_concurrency  integer CHECK (max_concurrency > 0),
    ADD COLUMN max_queue_depth  integer CHECK (max_queue_depth > 0),
    ADD COLUMN max_queue_age_s  double precision CHECK (max_queue_age_s > 0),
    ADD COLUMN pressure_mode    text CHECK (pressure_mode IN ('pause', 'coalesce', 'drop_oldest'));
CREATE INDEX jobs_with_limits ON jobs (id) WHERE pressure_mode IS NOT NULL;

-- Applied where the input is read.
ALTER TABLE input_edges ADD COLUMN filter jsonb;

ALTER TABLE tasks
    ALTER COLUMN id SET DEFAULT uuid7(),
    ADD COLUMN runtime               text,
    -- Waits in Postgres until the pressure on its job is gone: neither announced nor claimed.
    ADD COLUMN pending_backpressure  boolean NOT NULL DEFAULT false,
    -- What later events are taken into this task until it starts: its partition, or '*' for any.
    ADD COLUMN absorbs               text,
    ADD COLUMN queued_at             timestamptz NOT NULL DEFAULT clock_timestamp();
UPDATE tasks t SET runtime = j.runtime, queued_at = t.created_at FROM jobs j WHERE j.id = t.job_id;
ALTER TABLE tasks ALTER COLUMN runtime SET NOT NULL;

-- The reaper reads the few tasks that run; without an index on it a lease is extended in place.
DROP INDEX tasks_leases;
DROP INDEX tasks_queued;
-- What can be claimed, in the order in which a job's tasks are.
CREATE INDEX tasks_ready ON tasks (runtime, job_id, priority, queued_at, id)
    WHERE status = 'Queued' AND NOT pending_backpressure;
-- The last condition always holds. It keeps this index from claims, which do not ask for it: with
-- statistics of an empty queue the planner would take it for as good as the one above.
CREATE INDEX tasks_unheard ON tasks (announce_again_at)
    WHERE status = 'Queued' AND NOT pending_backpressure AND announcements >= 0;
CREATE INDEX tasks_deferred ON tasks (job_id, priority, queued_at, id)
    WHERE status = 'Queued' AND pending_backpressure;
CREATE INDEX tasks_running ON tasks (job_id) WHERE status = 'Running';
CREATE UNIQUE INDEX tasks_absorbing ON tasks (job_id, absorbs) WHERE absorbs IS NOT NULL;
-- For people, for rates and for retention. Completed tasks are found by their id, which is their age.
CREATE INDEX tasks_ended_badly ON tasks (status, id) WHERE status IN ('Failed', 'Canceled');

-- History has no foreign keys: every row is made by a statement that has just read what it names,
-- and a key would lock the same few rows of jobs and datasets for every task and event.
ALTER TABLE tasks DROP CONSTRAINT tasks_org_id_fkey, DROP CONSTRAINT tasks_job_id_fkey;
ALTER TABLE task_attempts DROP CONSTRAINT task_attempts_task_id_fkey,
    ADD COLUMN has_log boolean NOT NULL DEFAULT false;
ALTER TABLE partition_versions DROP CONSTRAINT partition_versions_task_id_fkey;
ALTER TABLE events DROP CONSTRAINT events_org_id_fkey, DROP CONSTRAINT events_dataset_uuid_fkey,
    DROP CONSTRAINT events_dataset_version_fkey;
CREATE INDEX events_by_dataset ON events (dataset_uuid, id);
CREATE INDEX events_by_age ON events USING brin (recorded_at);

-- The newest cursor of a generation that lives in a table instead of files.
ALTER TABLE dataset_versions
    ADD COLUMN location   text,
    ADD COLUMN cursor     bigint,
    ADD COLUMN row_count  bigint;

ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('route', 'enqueue', 'buffer'));
UPDATE outbox SET payload = jsonb_build_object('runtime', payload->'queue',
                                               'task_ids', jsonb_build_array(payload->'task_id'))
 WHERE kind = 'enqueue';

-- Why a job does not start tasks of these priorities: a user paused it, or a consumer is behind.
-- By name, so that a deploy does not lift it.
CREATE TABLE job_holds (
    org_id     uuid NOT NULL REFERENCES orgs,
    dag_name   text NOT NULL,
    job_name   text NOT NULL,
    -- 'user', or the id of the job whose queue is too long.
    cause      text NOT NULL,
    -- Priorities from this rank on are held: 0 holds everything, 2 only the low tier.
    from_rank  smallint NOT NULL,
    reason     text NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, dag_name, job_name, cause)
);

-- Jobs whose queue passed a limit and did not fall below half of it yet.
CREATE TABLE job_pressure (
    job_id     uuid PRIMARY KEY REFERENCES jobs,
    from_rank  smallint NOT NULL,
    depth      bigint NOT NULL,
    age_s      double precision NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What an aggregator has seen of a key.
CREATE TABLE correlations (
    job_id      uuid NOT NULL REFERENCES jobs,
    key         text NOT NULL,
    arrived     integer[] NOT NULL,
    event       jsonb NOT NULL,
    first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz,
    closed_at   timestamptz,
    outcome     text CHECK (outcome IN ('Complete', 'TimedOut')),
    PRIMARY KEY (job_id, key)
);
CREATE INDEX correlations_open ON correlations (expires_at) WHERE closed_at IS NULL;
CREATE INDEX correlations_closed ON correlations (closed_at) WHERE closed_at IS NOT NULL;

-- Batches that a sink shall write into a buffered dataset.
CREATE TABLE buffer_publishes (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id           uuid NOT NULL,
    task_id          uuid NOT NULL,
    attempt          integer NOT NULL,
    dataset_uuid     uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    batch_uri        text NOT NULL,
    record_count     bigint NOT NULL,
    published_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (task_id, attempt, dataset_uuid, batch_uri)
);

-- Who works, and with how much room: for people and alerts. Nothing is decided by it.
CREATE UNLOGGED TABLE workers (
    worker_id  text PRIMARY KEY,
    runtime    text NOT NULL,
    slots      integer NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT, INSERT, UPDATE ON job_holds, job_pressure, correlations, buffer_publishes, workers
    TO trace_dispatcher;
GRANT DELETE ON job_holds, job_pressure, correlations, buffer_publishes, workers, tasks,
    task_attempts, events TO trace_dispatcher;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO trace_dispatcher;
GRANT EXECUTE ON FUNCTION uuid7(), uuid7_at(timestamptz) TO trace_dispatcher;

-- As before, but rows are found by an array of their ids. As a join, with statistics that were taken
-- while the queue was empty, all of it would be read for every row that was chosen.
CREATE OR REPLACE FUNCTION queue.receive(
    queue_name text, max_messages integer, visibility_s double precision)
RETURNS TABLE (receipt text, body jsonb, receive_count integer)
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp SET enable_seqscan = off AS $$
    WITH worn AS MATERIALIZED (
        SELECT id FROM queue.messages
         WHERE queue = queue_name AND visible_at <= (SELECT clock_timestamp())
           AND receive_count >= 10
         ORDER BY visible_at, id LIMIT max_messages FOR UPDATE SKIP LOCKED
    ), dead AS (
        DELETE FROM queue.messages m WHERE m.id = ANY (ARRAY(SELECT id FROM worn))
        RETURNING m.id, m.queue, m.body, m.receive_count, m.sent_at
    ), buried AS (
        INSERT INTO queue.dead_letters (id, queue, body, receive_count, sent_at) SELECT * FROM dead
    ), due AS MATERIALIZED (
        SELECT id FROM queue.messages
         WHERE queue = queue_name AND visible_at <= (SELECT clock_timestamp())
           AND receive_count < 10
         ORDER BY visible_at, id LIMIT max_messages FOR UPDATE SKIP LOCKED
    )
    UPDATE queue.messages m
       SET visible_at = clock_timestamp() + make_interval(secs => visibility_s),
           receive_count = m.receive_count + 1, receipt = gen_random_uuid()
     WHERE m.id = ANY (ARRAY(SELECT id FROM due))
    RETURNING m.id || ':' || m.receipt, m.body, m.receive_count;
$$;
CREATE OR REPLACE FUNCTION queue.ack(receipts text[]) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp SET enable_seqscan = off AS $$
    WITH gone AS (
        DELETE FROM queue.messages m
         WHERE m.id = ANY (ARRAY(SELECT split_part(r, ':', 1)::bigint FROM unnest(receipts) r))
           AND m.id || ':' || m.receipt = ANY (receipts)
        RETURNING 1)
    SELECT count(*)::integer FROM gone;
$$;
