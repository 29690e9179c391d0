-- name: record!
-- Of an attempt whose end is written in the same transaction.
INSERT INTO check_results (dataset_uuid, dataset_version, task_id, attempt, partition_key, name, kind,
                           outcome, blocks_all, readers, row_count, failing, message, sample,
                           materialisation)
SELECT r.dataset_uuid, r.dataset_version, :task_id, :attempt, r.partition_key, r.name, r.kind, r.outcome,
       r.blocks_all, r.readers, r.row_count, r.failing, r.message, r.sample, r.materialisation
  FROM json_to_recordset(:results) AS r (
       dataset_uuid uuid, dataset_version uuid, partition_key text, name text, kind text, outcome text,
       blocks_all boolean, readers text[], row_count bigint, failing bigint, message text, sample json,
       materialisation uuid);

-- name: withhold!
INSERT INTO withheld_partitions (materialisation, org_id, dag_name, job_name, checks)
SELECT * FROM unnest(:materialisations::uuid[], :org_ids::uuid[], :dag_names::text[], :job_names::text[])
              AS w (materialisation, org_id, dag_name, job_name),
       LATERAL (SELECT ARRAY[:name::text]) AS c (checks)
    ON CONFLICT (org_id, dag_name, job_name, materialisation)
    DO UPDATE SET checks = withheld_partitions.checks || excluded.checks;

-- name: withheld_from
-- By job: the places of all files that its attempts may not be given.
SELECT w.org_id, w.dag_name, w.job_name, w.checks, p.location, p.partition_key,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM unnest(:org_ids::uuid[], :dag_names::text[], :job_names::text[]) AS g (org_id, dag_name, job_name)
  JOIN withheld_partitions w USING (org_id, dag_name, job_name)
  JOIN partition_versions p ON p.id = w.materialisation
  JOIN datasets d ON d.uuid = p.dataset_uuid;

-- name: withheld_of
-- Of these partitions those that some job may not be given, and one that may not.
SELECT DISTINCT ON (p.id) p.id, w.org_id, w.dag_name, w.job_name, w.checks, p.location, p.partition_key,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM withheld_partitions w
  JOIN partition_versions p ON p.id = w.materialisation
  JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE w.materialisation = ANY(:ids)
 ORDER BY p.id, w.dag_name, w.job_name;

-- name: put_back
-- Running -> Failed, to be tried again when what it may not read has given way, or after an hour. The
-- attempt has done nothing, and counts for nothing.
WITH put AS (
    UPDATE tasks t
       SET status = 'Failed', completed_at = clock_timestamp(), lease_expires_at = NULL,
           error_code = g.error_code, error_message = g.error_message,
           forgiven = t.forgiven + 1, outages = t.outages + 1,
           next_retry_at = clock_timestamp() + interval '1 hour'
      FROM unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[], :error_codes::text[],
                  :error_messages::text[])
           AS g (task_id, attempt, lease_token, error_code, error_message)
     WHERE t.id = g.task_id AND t.attempt = g.attempt AND t.lease_token = g.lease_token
       AND t.status = 'Running'
    RETURNING t.id, t.attempt, t.lease_token, t.error_code, t.error_message
), ended AS (
    UPDATE task_attempts a
       SET ended_at = clock_timestamp(), outcome = 'Failed', error_code = p.error_code,
           error_message = p.error_message
      FROM put p
     WHERE a.task_id = p.id AND a.attempt = p.attempt AND a.lease_token = p.lease_token
)
SELECT id FROM put;

-- name: release!
-- What waits for partitions of these generations that have given way is tried again at once; so is what
-- is to merge them.
UPDATE tasks t SET next_retry_at = clock_timestamp()
 WHERE t.status = 'Failed' AND t.next_retry_at IS NOT NULL AND t.error_code = :error_code
   AND (t.generation_id = ANY(ARRAY(
           SELECT generation_id FROM dataset_versions WHERE version = ANY(:dataset_versions)))
     OR t.job_id IN (
       SELECT j.id FROM withheld_partitions w
         JOIN partition_versions p ON p.id = w.materialisation AND p.superseded_at IS NOT NULL
         JOIN jobs j ON j.org_id = w.org_id AND j.dag_name = w.dag_name AND j.name = w.job_name
        WHERE p.dataset_version = ANY(:dataset_versions)));

-- name: standing
-- What is read now and kept from jobs.
SELECT w.dag_name, w.job_name, w.checks, p.partition_key,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       extract(epoch FROM clock_timestamp() - p.committed_at)::float8 AS age_s
  FROM withheld_partitions w
  JOIN partition_versions p ON p.id = w.materialisation AND p.superseded_at IS NULL
  JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE w.org_id = :org_id ORDER BY p.committed_at;

-- name: pii
-- All that was ever said to be personal of these datasets.
SELECT d.uuid, coalesce((SELECT array_agg(DISTINCT said)
                           FROM (SELECT d.metadata UNION ALL
                                 SELECT p.metadata FROM dag_version_publishes p
                                  WHERE p.dataset_uuid = d.uuid) m,
                                jsonb_array_elements_text(m.metadata->'pii') said), '{}') AS columns
  FROM datasets d WHERE d.uuid = ANY(:uuids);

-- name: results
-- The newest first.
SELECT coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       r.dataset_uuid, r.task_id, r.attempt, r.partition_key, r.name, r.kind, r.outcome, r.blocks_all,
       r.readers, r.row_count, r.failing, r.message, r.sample, r.materialisation, r.checked_at,
       EXISTS (SELECT FROM withheld_partitions w
                 JOIN partition_versions p ON p.id = w.materialisation AND p.superseded_at IS NULL
                WHERE w.materialisation = r.materialisation AND r.outcome <> 'passed'
                  AND r.name = ANY(w.checks))
       OR r.blocks_all AND r.outcome <> 'passed'
          AND EXISTS (SELECT FROM tasks t WHERE t.id = r.task_id AND t.attempt = r.attempt
                         AND t.status = 'Failed') AS blocks_now
  FROM check_results r JOIN datasets d ON d.uuid = r.dataset_uuid
 WHERE d.org_id = :org_id AND d.uuid = :dataset_uuid
   AND (NOT :failed OR r.outcome <> 'passed')
 ORDER BY r.id DESC LIMIT :limit;

-- name: listing
-- Each check by its newest result.
SELECT DISTINCT ON (r.dataset_uuid, r.name)
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       r.name, r.kind, r.outcome, r.blocks_all, r.readers, r.partition_key, r.checked_at,
       count(*) FILTER (WHERE r.outcome = 'passed') OVER own AS passed,
       count(*) FILTER (WHERE r.outcome <> 'passed') OVER own AS failed
  FROM check_results r JOIN datasets d ON d.uuid = r.dataset_uuid
 WHERE d.org_id = :org_id AND (:dataset_uuid::uuid IS NULL OR d.uuid = :dataset_uuid)
WINDOW own AS (PARTITION BY r.dataset_uuid, r.name)
 ORDER BY r.dataset_uuid, r.name, r.id DESC;
