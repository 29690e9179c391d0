-- Queries: who asked what of which datasets, who saw columns about persons, and what datasets were at
-- an earlier moment.

-- Never the text, only its hash. Whoever asks may choose the id, also one that was there before: the
-- moment is part of the identity, so that no query can hide behind another.
CREATE TABLE queries (
    query_id     uuid NOT NULL,
    started_at   timestamptz NOT NULL,
    org_id       uuid NOT NULL REFERENCES orgs,
    caller       text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('user', 'task')),
    sql_sha256   text NOT NULL,
    format       text NOT NULL,
    datasets     jsonb NOT NULL,
    -- By dataset: columns about persons that were shown.
    pii          jsonb NOT NULL,
    row_count    bigint NOT NULL,
    bytes        bigint NOT NULL,
    elapsed_ms   double precision NOT NULL,
    error        text,
    recorded_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (query_id, started_at)
);
CREATE INDEX queries_newest ON queries (org_id, started_at);
CREATE INDEX queries_of_caller ON queries (org_id, caller, started_at);
-- What is forgotten goes by this clock: the service's may be wrong.
CREATE INDEX queries_recorded ON queries (recorded_at);

-- Which queries read a dataset of this name, the newest at one end however many others there are.
CREATE TABLE query_reads (
    org_id      uuid NOT NULL,
    dataset     text NOT NULL,
    started_at  timestamptz NOT NULL,
    query_id    uuid NOT NULL,
    PRIMARY KEY (org_id, dataset, started_at, query_id)
);

CREATE TABLE pii_access_log (
    query_id         uuid NOT NULL,
    accessed_at      timestamptz NOT NULL,
    org_id           uuid NOT NULL REFERENCES orgs,
    caller           text NOT NULL,
    kind             text NOT NULL,
    dataset          text NOT NULL,
    dataset_uuid     uuid NOT NULL,
    dataset_version  uuid NOT NULL,
    columns          text[] NOT NULL,
    recorded_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (query_id, accessed_at, dataset, dataset_version)
);
CREATE INDEX pii_access_newest ON pii_access_log (org_id, accessed_at);
CREATE INDEX pii_access_of_caller ON pii_access_log (org_id, caller, accessed_at);
CREATE INDEX pii_access_of_dataset ON pii_access_log (org_id, dataset, accessed_at);
CREATE INDEX pii_access_recorded ON pii_access_log (recorded_at);

-- The only way out of the log, and not before a year: its writer can neither change nor shorten it.
CREATE FUNCTION forget_pii_access(keep_days double precision, max_rows integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH gone AS (
        DELETE FROM pii_access_log
         WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM pii_access_log
                WHERE recorded_at < (SELECT clock_timestamp()
                                            - make_interval(secs => greatest(keep_days, 365) * 86400))
                ORDER BY recorded_at LIMIT max_rows))
        RETURNING 1)
    SELECT count(*)::integer FROM gone;
$$;
REVOKE ALL ON FUNCTION forget_pii_access(double precision, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_pii_access(double precision, integer) TO trace_dispatcher;
GRANT SELECT, INSERT ON pii_access_log TO trace_dispatcher;
GRANT SELECT, INSERT, DELETE ON queries, query_reads TO trace_dispatcher;

-- What was active at a moment, and which datasets a name ever stood for.
CREATE INDEX deploys_cut_over ON deploys (org_id, dag_name, ended_at, id) WHERE status = 'CutOver';
CREATE INDEX dag_version_publishes_name ON dag_version_publishes (name);
CREATE INDEX dag_version_publishes_dataset ON dag_version_publishes (dataset_uuid);
-- Partitions that gave way after a moment were current then.
DROP INDEX partition_versions_gone;
CREATE INDEX partition_versions_gone ON partition_versions (dataset_version, superseded_at)
    WHERE superseded_at IS NOT NULL;
