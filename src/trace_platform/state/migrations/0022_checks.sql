-- What the checks of jobs found, with the end of the attempt that they looked at.
CREATE TABLE check_results (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_uuid     uuid NOT NULL REFERENCES datasets,
    dataset_version  uuid NOT NULL,
    task_id          uuid NOT NULL,
    attempt          integer NOT NULL,
    partition_key    text NOT NULL,
    name             text NOT NULL,
    kind             text NOT NULL,
    outcome          text NOT NULL CHECK (outcome IN ('passed', 'failed', 'error')),
    blocks_all       boolean NOT NULL,
    -- Jobs that it blocks by name, as DAG.JOB.
    readers          text[] NOT NULL,
    row_count        bigint NOT NULL,
    failing          bigint NOT NULL,
    message          text NOT NULL,
    -- Not jsonb: that forgets the order of columns.
    sample           json NOT NULL,
    -- The partition that it looked at, once that is committed.
    materialisation  uuid,
    checked_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX check_results_by_dataset ON check_results (dataset_uuid, id DESC);
CREATE INDEX check_results_by_age ON check_results (checked_at);

-- Committed partitions that a failed check keeps from a job: an attempt of it is not given their files.
CREATE TABLE withheld_partitions (
    materialisation  uuid NOT NULL REFERENCES partition_versions ON DELETE CASCADE,
    org_id           uuid NOT NULL,
    dag_name         text NOT NULL,
    job_name         text NOT NULL,
    checks           text[] NOT NULL,
    PRIMARY KEY (org_id, dag_name, job_name, materialisation)
);
CREATE INDEX withheld_partitions_by_partition ON withheld_partitions (materialisation);

GRANT SELECT, INSERT, UPDATE, DELETE ON check_results, withheld_partitions TO trace_dispatcher;
