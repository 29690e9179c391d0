-- name: attempts
-- With the attempt before, where that one's worker went silent: nobody else says that it ended.
SELECT t.id AS task_id, a.attempt, a.started_at, a.ended_at, a.outcome, a.error_code,
       a.error_message, t.job_id, t.generation_id, j.dag_name, j.name AS job_name,
       coalesce(j.operator, j.source->>'kind', '') AS operator
  FROM (SELECT DISTINCT ON (task_id, attempt) task_id, attempt
          FROM unnest(:task_ids::uuid[], :attempts::integer[]) AS asked (task_id, attempt)) g
  JOIN tasks t ON t.id = g.task_id
  JOIN task_attempts a ON a.task_id = g.task_id
                      AND (a.attempt = g.attempt
                           OR a.attempt = g.attempt - 1 AND a.outcome = 'LeaseExpired')
  JOIN jobs j ON j.id = t.job_id
 ORDER BY t.id, a.attempt;

-- name: inputs
-- What these jobs read. A name is whoever has it now.
SELECT e.job_id, d.uuid AS dataset_uuid, d.current_version AS dataset_version,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       coalesce(v.table_columns, v.columns, '[]') AS columns
  FROM input_edges e
  JOIN jobs j ON j.id = e.job_id
  JOIN datasets d ON d.uuid = coalesce((SELECT uuid FROM datasets n
                                         WHERE n.org_id = j.org_id AND n.name = e.dataset_name),
                                       e.dataset_uuid)
  LEFT JOIN dataset_versions v ON v.version = d.current_version
 WHERE e.job_id = ANY(:job_ids) ORDER BY e.job_id, e.input_index;

-- name: outputs
SELECT v.generation_id, d.uuid AS dataset_uuid, v.version AS dataset_version,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       coalesce(v.table_columns, v.columns, '[]') AS columns
  FROM dataset_versions v JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE v.generation_id = ANY(:generation_ids) ORDER BY v.generation_id, d.output_index;

-- name: commits
-- By where attempts stage what they write.
SELECT location, row_count, byte_count, jsonb_array_length(files) AS files
  FROM partition_versions WHERE location = ANY(:locations);

-- name: active_versions
SELECT dag_version_id FROM active_dags WHERE org_id = :org_id ORDER BY dag_version_id;
