-- Which queries there were, and who saw columns about persons.

-- name: record$
-- How many are new. With each, the datasets it can be found by, and a line of the log for every
-- generation whose columns about persons it showed.
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(:queries::jsonb) AS q (
        query_id uuid, started_at timestamptz, caller text, kind text, sql_sha256 text, format text,
        datasets jsonb, pii jsonb, row_count bigint, bytes bigint, elapsed_ms double precision,
        error text)
), new AS (
    INSERT INTO queries (query_id, started_at, org_id, caller, kind, sql_sha256, format, datasets,
                         pii, row_count, bytes, elapsed_ms, error)
    SELECT query_id, started_at, :org_id, caller, kind, sql_sha256, format, datasets, pii, row_count,
           bytes, elapsed_ms, error
      FROM given
        ON CONFLICT (query_id, started_at) DO NOTHING
    RETURNING query_id, started_at, caller, kind, datasets, pii
), read AS MATERIALIZED (
    SELECT n.query_id, n.started_at, n.caller, n.kind, d->>'name' AS dataset,
           (d->>'dataset_uuid')::uuid AS dataset_uuid,
           (d->>'dataset_version')::uuid AS dataset_version, n.pii->(d->>'name') AS shown
      FROM new n CROSS JOIN LATERAL jsonb_array_elements(n.datasets) d
), found_by AS (
    INSERT INTO query_reads (org_id, dataset, started_at, query_id)
    SELECT DISTINCT :org_id::uuid, dataset, started_at, query_id FROM read
), logged AS (
    INSERT INTO pii_access_log (query_id, accessed_at, org_id, caller, kind, dataset, dataset_uuid,
                                dataset_version, columns)
    SELECT DISTINCT query_id, started_at, :org_id::uuid, caller, kind, dataset, dataset_uuid,
           dataset_version, ARRAY(SELECT jsonb_array_elements_text(shown))
      FROM read WHERE jsonb_array_length(shown) > 0
)
SELECT count(*) FROM new;

-- name: newest
SELECT * FROM queries WHERE org_id = :org_id ORDER BY started_at DESC LIMIT :limit;

-- name: newest_of_caller
SELECT * FROM queries
 WHERE org_id = :org_id AND caller = :caller ORDER BY started_at DESC LIMIT :limit;

-- name: newest_of_dataset
SELECT q.*
  FROM query_reads r
 CROSS JOIN LATERAL (
       SELECT * FROM queries
        WHERE query_id = r.query_id AND started_at = r.started_at
          AND caller = coalesce(:caller, caller) OFFSET 0) q
 WHERE r.org_id = :org_id AND r.dataset = :dataset
 ORDER BY r.started_at DESC LIMIT :limit;

-- name: accesses
SELECT * FROM pii_access_log WHERE org_id = :org_id ORDER BY accessed_at DESC LIMIT :limit;

-- name: accesses_of_caller
SELECT * FROM pii_access_log
 WHERE org_id = :org_id AND caller = :caller ORDER BY accessed_at DESC LIMIT :limit;

-- name: accesses_of_dataset
-- Whatever it was called then.
SELECT * FROM pii_access_log
 WHERE org_id = :org_id AND dataset_uuid = :dataset_uuid AND caller = coalesce(:caller, caller)
 ORDER BY accessed_at DESC LIMIT :limit;

-- name: accesses_of_name
SELECT * FROM pii_access_log
 WHERE org_id = :org_id AND dataset = :dataset AND caller = coalesce(:caller, caller)
 ORDER BY accessed_at DESC LIMIT :limit;
