-- What there is, by kind and id, each with a text that is another one once it has changed. Whoever
-- looks twice sees what changed meanwhile. Read from what is alive, by its partial indexes, and from
-- the newest rows: history is never counted.

-- name: all_but_queues
WITH running AS MATERIALIZED (
    SELECT t.id, j.dag_name || '.' || j.name AS job, j.activation, t.attempt, t.started_at,
           t.progress,
           concat_ws(' ', t.attempt, t.cancel_requested_at, t.drain_requested_at,
                     t.progress->>'done', t.progress->>'total', t.progress->>'stuck') AS is_now
      FROM tasks t JOIN jobs j ON j.id = t.job_id
     WHERE t.status = 'Running' AND t.org_id = :org_id
), newest AS MATERIALIZED (
    SELECT t.id, j.dag_name || '.' || j.name AS job, concat_ws(' ', t.status, t.attempt) AS is_now
      FROM (SELECT id, job_id, status, attempt FROM tasks
             WHERE org_id = :org_id
               AND id >= (SELECT uuid7_at(clock_timestamp() - interval '5 seconds'))
             ORDER BY id DESC LIMIT 500) t
      JOIN jobs j ON j.id = t.job_id
), heads AS (
    SELECT d.dag_name || '.' || d.job_name AS job, sum(s.position) AS position
      FROM active_dags a
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      JOIN jobs j ON j.id = v.job_id AND j.activation = 'source'
      JOIN datasets d ON d.org_id = a.org_id AND d.dag_name = j.dag_name AND d.job_name = j.name
      JOIN dataset_versions s ON s.version = d.current_version
     WHERE a.org_id = :org_id GROUP BY 1
)
SELECT 'running task' AS kind, coalesce(jsonb_object_agg(id, is_now), '{}') AS there FROM running
 UNION ALL
SELECT 'new task', coalesce(jsonb_object_agg(id, is_now), '{}') FROM newest
 UNION ALL
SELECT 'running job', coalesce(jsonb_object_agg(job, is_now), '{}')
  FROM (SELECT job, concat_ws(' ', count(*), max(started_at)) AS is_now FROM running GROUP BY job) r
 UNION ALL
SELECT 'new job', coalesce(jsonb_object_agg(job, is_now), '{}')
  FROM (SELECT job, string_agg(is_now, ' ' ORDER BY id) AS is_now FROM newest GROUP BY job) n
 UNION ALL
SELECT 'dataset', coalesce(jsonb_object_agg(d.uuid, v.position || left(v.version::text, 8)), '{}')
  FROM datasets d JOIN dataset_versions v ON v.version = d.current_version
 WHERE d.org_id = :org_id
 UNION ALL
SELECT 'reported head', coalesce(jsonb_object_agg(job, concat_ws(' ', progress->>'done',
                                                                  progress->>'total')), '{}')
  FROM running WHERE activation = 'source'
 UNION ALL
SELECT 'emitted head', coalesce(jsonb_object_agg(job, position), '{}') FROM heads
 UNION ALL
SELECT 'held job', coalesce(jsonb_object_agg(job, is_now), '{}')
  FROM (SELECT dag_name || '.' || job_name AS job,
               string_agg(cause || from_rank, ' ' ORDER BY cause) AS is_now
          FROM job_holds WHERE org_id = :org_id GROUP BY 1) h
 UNION ALL
SELECT 'active dag', coalesce(jsonb_object_agg(dag_name, dag_version_id || activated_at::text), '{}')
  FROM active_dags WHERE org_id = :org_id
 UNION ALL
SELECT 'building dag', coalesce(jsonb_object_agg(dag_name, xmin::text), '{}')
  FROM deploys WHERE org_id = :org_id AND status = 'Building'
 UNION ALL
SELECT 'deployed dag', coalesce(jsonb_object_agg(dag_name, is_now), '{}')
  FROM (SELECT dag_name, string_agg(status, ' ' ORDER BY id) AS is_now FROM deploys
         WHERE org_id = :org_id AND id >= (SELECT uuid7_at(clock_timestamp() - interval '5 seconds'))
         GROUP BY dag_name) d
 UNION ALL
SELECT 'backfill', coalesce(jsonb_object_agg(id, xmin::text), '{}')
  FROM backfills WHERE org_id = :org_id AND status IN ('Running', 'Paused')
 UNION ALL
SELECT 'invalidation', coalesce(jsonb_object_agg(id, is_now), '{}')
  FROM (SELECT id, xmin::text AS is_now FROM data_invalidations
         WHERE org_id = :org_id AND processed_at IS NULL ORDER BY id DESC LIMIT 500) i;

-- name: queues
-- How long queues are: all that waits is counted.
WITH waiting AS (
    SELECT job_id, concat_ws(' ', status, pending_backpressure, count(*)) AS is_now FROM tasks
     WHERE status = 'Queued' GROUP BY job_id, status, pending_backpressure
     UNION ALL
    SELECT job_id, concat_ws(' ', 'retry', count(*)) FROM tasks
     WHERE status = 'Failed' AND next_retry_at IS NOT NULL GROUP BY job_id
)
SELECT 'waiting job' AS kind, coalesce(jsonb_object_agg(job, is_now), '{}') AS there
  FROM (SELECT j.dag_name || '.' || j.name AS job, string_agg(w.is_now, ' ' ORDER BY w.is_now) AS is_now
          FROM waiting w JOIN jobs j ON j.id = w.job_id
         WHERE j.org_id = :org_id GROUP BY 1) q;
