-- The control plane's truth. Roles exist before this runs; trace_owner owns everything here.

CREATE TABLE orgs (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    slug        text NOT NULL UNIQUE,
    name        text NOT NULL,
    settings    jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO orgs (slug, name) VALUES ('default', 'Default');

-- A DAG version is immutable and keyed by its content.
CREATE TABLE dag_versions (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id        uuid NOT NULL REFERENCES orgs,
    dag_name      text NOT NULL,
    content_hash  text NOT NULL,
    yaml          text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, dag_name, content_hash)
);

CREATE TABLE active_dags (
    org_id          uuid NOT NULL REFERENCES orgs,
    dag_name        text NOT NULL,
    dag_version_id  uuid NOT NULL REFERENCES dag_versions,
    activated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (org_id, dag_name)
);

-- A job row is one definition: versions of a DAG that leave a job unchanged share its row, so its
-- tasks keep their identity over deploys.
CREATE TABLE jobs (
    id                         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id                     uuid NOT NULL REFERENCES orgs,
    dag_name                   text NOT NULL,
    name                       text NOT NULL,
    config_hash                text NOT NULL,
    activation                 text NOT NULL CHECK (activation IN ('source', 'reactive')),
    source                     jsonb,
    runtime                    text,
    operator                   text,
    execution_strategy         text CHECK (execution_strategy IN ('PerUpdate', 'PerPartition')),
    outputs                    text[] NOT NULL,
    config                     jsonb NOT NULL,
    priority                   smallint NOT NULL,
    max_attempts               integer NOT NULL CHECK (max_attempts > 0),
    timeout_seconds            double precision NOT NULL CHECK (timeout_seconds > 0),
    heartbeat_timeout_seconds  double precision NOT NULL CHECK (heartbeat_timeout_seconds > 0),
    created_at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, dag_name, name, config_hash)
);

CREATE TABLE dag_version_jobs (
    dag_version_id  uuid NOT NULL REFERENCES dag_versions,
    job_id          uuid NOT NULL REFERENCES jobs,
    PRIMARY KEY (dag_version_id, job_id)
);
CREATE INDEX ON dag_version_jobs (job_id);

-- A dataset is one output of one job; `name` is what it is published as.
CREATE TABLE datasets (
    uuid             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id           uuid NOT NULL REFERENCES orgs,
    dag_name         text NOT NULL,
    job_name         text NOT NULL,
    output_index     integer NOT NULL CHECK (output_index >= 0),
    name             text,
    current_version  uuid NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (org_id, dag_name, job_name, output_index),
    UNIQUE (org_id, name)
);

-- A generation of a dataset.
CREATE TABLE dataset_versions (
    version       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    dataset_uuid  uuid NOT NULL REFERENCES datasets DEFERRABLE INITIALLY DEFERRED,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE datasets ADD FOREIGN KEY (current_version) REFERENCES dataset_versions
    DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE input_edges (
    job_id        uuid NOT NULL REFERENCES jobs,
    input_index   integer NOT NULL,
    dataset_uuid  uuid NOT NULL REFERENCES datasets,
    PRIMARY KEY (job_id, input_index)
);
CREATE INDEX ON input_edges (dataset_uuid);

-- queued -> running -> completed | failed | canceled; failed -> queued (retry).
-- The fence of an attempt is (id, attempt, lease_token). It holds while the attempt runs and, after
-- the reaper gave up on it (reaped_at), until a newer attempt starts.
CREATE TABLE tasks (
    id                   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id               uuid NOT NULL REFERENCES orgs,
    job_id               uuid NOT NULL REFERENCES jobs,
    dedupe_key           text NOT NULL,
    status               text NOT NULL DEFAULT 'Queued'
                         CHECK (status IN ('Queued', 'Running', 'Completed', 'Failed', 'Canceled')),
    priority             smallint NOT NULL,
    inputs               jsonb NOT NULL,
    outputs              jsonb,
    attempt              integer NOT NULL DEFAULT 0,
    -- Attempts that do not count against max_attempts: interrupted, or from before a manual retry.
    forgiven             integer NOT NULL DEFAULT 0,
    lease_token          uuid,
    lease_expires_at     timestamptz,
    reaped_at            timestamptz,
    worker_id            text,
    progress             jsonb,
    cancel_requested_at  timestamptz,
    next_retry_at        timestamptz,
    error_code           text,
    error_message        text,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    announcements        integer NOT NULL DEFAULT 0,
    announce_again_at    timestamptz NOT NULL DEFAULT clock_timestamp() + interval '1 minute',
    started_at           timestamptz,
    completed_at         timestamptz,
    UNIQUE (job_id, dedupe_key),
    CHECK ((status = 'Running') = (lease_expires_at IS NOT NULL)),
    CHECK (status <> 'Running' OR lease_token IS NOT NULL),
    CHECK (reaped_at IS NULL OR status IN ('Failed', 'Queued'))
);
CREATE INDEX tasks_leases ON tasks (lease_expires_at) WHERE status = 'Running';
CREATE INDEX tasks_retries ON tasks (next_retry_at)
    WHERE status = 'Failed' AND next_retry_at IS NOT NULL;
CREATE INDEX tasks_queued ON tasks (announce_again_at) WHERE status = 'Queued';

-- Append-only: one row per attempt, its end written once.
CREATE TABLE task_attempts (
    task_id        uuid NOT NULL REFERENCES tasks,
    attempt        integer NOT NULL,
    lease_token    uuid NOT NULL,
    worker_id      text NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at       timestamptz,
    outcome        text CHECK (outcome IN ('Completed', 'Failed', 'Canceled', 'LeaseExpired')),
    error_code     text,
    error_message  text,
    PRIMARY KEY (task_id, attempt)
);

-- What was committed, by whom, where. The current rows of a generation never overlap.
CREATE TABLE partition_versions (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    dataset_uuid     uuid NOT NULL REFERENCES datasets,
    dataset_version  uuid NOT NULL REFERENCES dataset_versions,
    partition_key    text NOT NULL,
    range_start      bigint,
    range_end        bigint,
    location         text NOT NULL,
    files            jsonb NOT NULL,
    row_count        bigint NOT NULL,
    byte_count       bigint NOT NULL,
    schema_hash      text NOT NULL,
    task_id          uuid NOT NULL REFERENCES tasks,
    attempt          integer NOT NULL,
    committed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    superseded_at    timestamptz,
    CHECK ((range_start IS NULL) = (range_end IS NULL))
);
CREATE UNIQUE INDEX partition_versions_current ON partition_versions (dataset_version, partition_key)
    WHERE superseded_at IS NULL;
CREATE INDEX partition_versions_ranges ON partition_versions (dataset_version, range_start)
    WHERE superseded_at IS NULL;

-- Recorded once per identity; routed once.
CREATE TABLE events (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id           uuid NOT NULL REFERENCES orgs,
    dataset_uuid     uuid NOT NULL REFERENCES datasets,
    dataset_version  uuid NOT NULL REFERENCES dataset_versions,
    identity         text NOT NULL,
    cursor           bigint,
    partition_key    text,
    range_start      bigint,
    range_end        bigint,
    producer_task_id uuid,
    producer_attempt integer,
    recorded_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    routed_at        timestamptz,
    UNIQUE (dataset_version, identity)
);

-- Side effects that are still owed. A row is deleted once its effect happened.
CREATE TABLE outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('route', 'enqueue')),
    payload       jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    available_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON outbox (available_at, id);

-- Small and busy: vacuum long before the default of a fifth of the table.
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 80);

GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO trace_dispatcher;
GRANT DELETE ON outbox TO trace_dispatcher;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO trace_dispatcher;
GRANT USAGE ON SCHEMA public TO trace_dispatcher;
-- Exponential back-off with jitter (half to the whole of the delay), at most five minutes.
CREATE FUNCTION retry_delay_s(attempt integer, base_s double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT least(300, base_s * 2 ^ least(attempt - 1, 20)) * (0.5 + random() / 2);
$$;
GRANT EXECUTE ON FUNCTION retry_delay_s(integer, double precision) TO trace_dispatcher;
