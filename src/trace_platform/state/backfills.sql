-- name: target^
-- The deployed job, where its data lives, and whether a rebuild of it is under way.
SELECT j.org_id, j.dag_name, j.name, j.activation, j.source->>'kind' AS kind, j.execution_strategy,
       v.generation_id,
       EXISTS (SELECT FROM rebuilds r WHERE r.generation_id = v.generation_id) AS rebuilt
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name AND j.name = :job_name;

-- name: upstream
-- Who makes what a generation reads.
SELECT DISTINCT d.dag_name, d.job_name, j.activation, j.source->>'kind' AS kind
  FROM subscriptions s
  JOIN datasets d ON d.uuid = s.dataset_uuid
  JOIN active_dags a ON a.org_id = d.org_id AND a.dag_name = d.dag_name
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.name = d.job_name
 WHERE s.generation_id = :generation_id
 ORDER BY 1, 2;

-- name: each_s$
-- How long a task of the generation takes: the mean of those that made its newest partitions, or else
-- of those that were given some of these inputs. A few dozen: no finished history is read.
SELECT coalesce(
       (SELECT avg(extract(epoch FROM a.ended_at - a.started_at))
          FROM dataset_versions v
         CROSS JOIN LATERAL (
               SELECT task_id, attempt FROM partition_versions
                WHERE dataset_version = v.version AND superseded_at IS NULL
                  AND range_start IS NOT NULL
                ORDER BY range_start DESC LIMIT 30) p
          JOIN task_attempts a ON a.task_id = p.task_id AND a.attempt = p.attempt
         WHERE v.generation_id = :generation_id AND a.ended_at IS NOT NULL),
       (SELECT avg(extract(epoch FROM a.ended_at - a.started_at))
          FROM (SELECT i.task_id FROM task_inputs i
                 WHERE i.event_id = ANY(:event_ids) AND i.generation_id = :generation_id
                 LIMIT 30) i
          JOIN task_attempts a ON a.task_id = i.task_id
         WHERE a.outcome = 'Completed'))::float8;

-- name: begin$
-- Once per id.
INSERT INTO backfills (id, org_id, dag_name, job_name, generation_id, range_start, range_end, force,
                       status, max_in_flight, event_ids)
VALUES (:id, :org_id, :dag_name, :job_name, :generation_id, :start, :end, :force, 'Running',
        :max_in_flight, :event_ids)
    ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: alive
SELECT id FROM backfills WHERE status IN ('Running', 'Paused') ORDER BY id;

-- name: hold^
-- Passed over while somebody else is at it. Of its inputs only those that come next.
SELECT b.id, b.status, b.generation_id, b.force, b.max_in_flight, b.done_events,
       cardinality(b.event_ids) AS inputs, b.dag_name, b.job_name,
       (SELECT s.job_id FROM subscriptions s WHERE s.generation_id = b.generation_id LIMIT 1)
           AS job_id,
       EXISTS (SELECT FROM rebuilds r WHERE r.generation_id = b.generation_id) AS rebuilt
  FROM backfills b
 WHERE b.id = :id AND b.status IN ('Running', 'Paused')
   FOR UPDATE SKIP LOCKED;

-- name: in_flight$
SELECT count(*) FROM tasks
 WHERE backfill_id = :id
   AND (status IN ('Queued', 'Running') OR status = 'Failed' AND next_retry_at IS NOT NULL);

-- name: strategy$
SELECT execution_strategy FROM jobs WHERE id = :job_id;

-- name: next_events$
SELECT event_ids[done_events + 1 : done_events + :limit] FROM backfills WHERE id = :id;

-- name: advance!
UPDATE backfills SET done_events = done_events + :events WHERE id = :id;

-- name: finish!
UPDATE backfills SET status = :status, ended_at = clock_timestamp(), ended_because = :because
 WHERE id = :id AND status IN ('Running', 'Paused');

-- name: lock^
SELECT id, status FROM backfills WHERE org_id = :org_id AND id = :id FOR UPDATE;

-- name: set_status!
UPDATE backfills SET status = :status WHERE id = :id AND status IN ('Running', 'Paused');

-- name: cancel_tasks!
-- What waits is over at once; what runs is told with its next heartbeat.
UPDATE tasks
   SET cancel_requested_at = clock_timestamp(), absorbs = NULL, reaped_at = NULL,
       next_retry_at = NULL, pending_backpressure = false,
       status = CASE WHEN status = 'Running' THEN 'Running' ELSE 'Canceled' END,
       completed_at = CASE WHEN status = 'Running' THEN completed_at ELSE clock_timestamp() END,
       error_code = CASE WHEN status = 'Running' THEN error_code ELSE 'canceled' END,
       error_message = CASE WHEN status = 'Running' THEN error_message
                            ELSE 'its backfill was canceled' END
 WHERE id = ANY(ARRAY(
       SELECT id FROM tasks
        WHERE backfill_id = :id AND cancel_requested_at IS NULL
          AND (status IN ('Queued', 'Running') OR status = 'Failed' AND next_retry_at IS NOT NULL)
        ORDER BY id));

-- name: alive_of_dag
SELECT id FROM backfills
 WHERE org_id = :org_id AND dag_name = :dag_name AND status IN ('Running', 'Paused')
 ORDER BY id FOR UPDATE;

-- name: listing
SELECT b.id AS backfill_id, b.dag_name, b.job_name, b.range_start AS start, b.range_end AS "end",
       b.force, b.status, b.max_in_flight, b.created_at, b.ended_at, b.ended_because,
       cardinality(b.event_ids) AS inputs, b.done_events AS inputs_given,
       (SELECT j.execution_strategy FROM subscriptions s JOIN jobs j ON j.id = s.job_id
         WHERE s.generation_id = b.generation_id LIMIT 1) AS execution_strategy,
       (SELECT coalesce(jsonb_object_agg(status, tasks), '{}')
          FROM (SELECT CASE WHEN status = 'Failed' AND next_retry_at IS NOT NULL THEN 'Retrying'
                            ELSE status END AS status, count(*) AS tasks
                  FROM tasks WHERE backfill_id = b.id GROUP BY 1) c) AS counts
  FROM backfills b
 WHERE b.org_id = :org_id AND (:id::uuid IS NULL OR b.id = :id)
   AND (:dag_name::text IS NULL OR b.dag_name = :dag_name)
 ORDER BY b.created_at DESC LIMIT :limit;

-- name: failed
SELECT id AS task_id, inputs, status, error_code, error_message FROM tasks
 WHERE backfill_id = :id AND status IN ('Failed', 'Canceled') AND next_retry_at IS NULL
 ORDER BY id LIMIT :limit;
