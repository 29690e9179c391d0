-- name: claim_task^
-- Queued -> Running. No row back: somebody else has it, or it is over.
UPDATE tasks t
   SET status = 'Running', attempt = t.attempt + 1, lease_token = gen_random_uuid(),
       lease_expires_at = clock_timestamp() + make_interval(secs => j.heartbeat_timeout_seconds),
       reaped_at = NULL, next_retry_at = NULL, progress = NULL, error_code = NULL,
       error_message = NULL, worker_id = :worker_id, started_at = clock_timestamp()
  FROM jobs j
 WHERE t.id = :task_id AND t.status = 'Queued' AND t.cancel_requested_at IS NULL
   AND j.id = t.job_id
RETURNING t.*, j.dag_name, j.name AS job_name, j.operator, j.config, j.outputs AS output_names,
          j.timeout_seconds, j.heartbeat_timeout_seconds;

-- name: start_attempt!
INSERT INTO task_attempts (task_id, attempt, lease_token, worker_id)
VALUES (:task_id, :attempt, :lease_token, :worker_id);

-- name: pin_outputs!
UPDATE tasks SET outputs = :outputs WHERE id = :task_id;

-- name: get_task^
SELECT t.*, j.dag_name, j.name AS job_name, j.operator, j.config, j.timeout_seconds,
       j.heartbeat_timeout_seconds
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.id = :task_id;

-- name: extend_lease^
-- A reaped attempt that nobody replaced yet takes its lease up again: only a lost fence stops work.
-- An operator that hangs past its time-out is kept alive by its worker's beats no longer.
UPDATE tasks t
   SET status = 'Running', reaped_at = NULL, next_retry_at = NULL, error_code = NULL,
       error_message = NULL, completed_at = NULL, progress = coalesce(:progress, t.progress),
       lease_expires_at = clock_timestamp() + make_interval(secs => j.heartbeat_timeout_seconds)
  FROM jobs j
 WHERE t.id = :task_id AND t.attempt = :attempt AND t.lease_token = :lease_token
   AND (t.status = 'Running' OR t.reaped_at IS NOT NULL) AND j.id = t.job_id
   AND clock_timestamp() < t.started_at + make_interval(secs => j.timeout_seconds + :grace_s)
RETURNING t.lease_expires_at, t.cancel_requested_at;

-- name: resume_attempt!
UPDATE task_attempts SET ended_at = NULL, outcome = NULL, error_code = NULL, error_message = NULL
 WHERE task_id = :task_id AND attempt = :attempt AND outcome = 'LeaseExpired';

-- name: hold_fence^
-- The row stays locked until the transaction ends, so nothing can overtake what follows.
SELECT * FROM tasks
 WHERE id = :task_id AND attempt = :attempt AND lease_token = :lease_token
   AND (status = 'Running' OR reaped_at IS NOT NULL)
   FOR NO KEY UPDATE;

-- name: finish_task^
-- Running (or reaped and not replaced) -> Completed | Canceled. No row back: the fence is lost.
UPDATE tasks
   SET status = :status, completed_at = clock_timestamp(), lease_expires_at = NULL,
       reaped_at = NULL, next_retry_at = NULL, error_code = :error_code,
       error_message = :error_message
 WHERE id = :task_id AND attempt = :attempt AND lease_token = :lease_token
   AND (status = 'Running' OR reaped_at IS NOT NULL)
RETURNING *;

-- name: fail_task^
-- Running (or reaped and not replaced) -> Failed, with a time to retry when that can help, or
-- Canceled when that was asked for meanwhile. An interrupted attempt is forgiven, within bounds: code
-- that calls every attempt interrupted must not run for ever.
UPDATE tasks t
   SET status = CASE WHEN t.cancel_requested_at IS NULL THEN 'Failed' ELSE 'Canceled' END,
       completed_at = clock_timestamp(), lease_expires_at = NULL, reaped_at = NULL,
       error_code = :error_code, error_message = :error_message,
       forgiven = t.forgiven + (:interrupted AND t.forgiven < 100)::integer,
       next_retry_at = CASE
           WHEN t.cancel_requested_at IS NOT NULL OR NOT :retryable THEN NULL
           WHEN :interrupted AND t.forgiven < 100 THEN clock_timestamp()
           WHEN t.attempt - t.forgiven < j.max_attempts
           THEN clock_timestamp() + make_interval(
               secs => retry_delay_s(t.attempt - t.forgiven, :retry_base_s))
       END
  FROM jobs j
 WHERE t.id = :task_id AND t.attempt = :attempt AND t.lease_token = :lease_token
   AND (t.status = 'Running' OR t.reaped_at IS NOT NULL) AND j.id = t.job_id
RETURNING t.*;

-- name: end_attempt!
UPDATE task_attempts
   SET ended_at = clock_timestamp(), outcome = :outcome, error_code = :error_code,
       error_message = :error_message
 WHERE task_id = :task_id AND attempt = :attempt AND lease_token = :lease_token;

-- name: ended_outcome$
SELECT outcome FROM task_attempts
 WHERE task_id = :task_id AND attempt = :attempt AND lease_token = :lease_token;

-- name: reap_leases
-- Running -> Failed (or Canceled, when that was asked for) once the lease ran out.
WITH due AS (
    SELECT id FROM tasks
     WHERE status = 'Running' AND lease_expires_at < (SELECT clock_timestamp())
     ORDER BY lease_expires_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), reaped AS (
    UPDATE tasks t
       SET status = CASE WHEN t.cancel_requested_at IS NULL THEN 'Failed' ELSE 'Canceled' END,
           reaped_at = CASE WHEN t.cancel_requested_at IS NULL THEN clock_timestamp() END,
           completed_at = clock_timestamp(), lease_expires_at = NULL, error_code = 'lease_expired',
           error_message = 'no heartbeat from ' || t.worker_id || ' within '
                           || j.heartbeat_timeout_seconds || ' s',
           next_retry_at = CASE WHEN t.cancel_requested_at IS NULL
               AND t.attempt - t.forgiven < j.max_attempts THEN clock_timestamp() END
      FROM due, jobs j
     WHERE t.id = due.id AND j.id = t.job_id
    RETURNING t.id, t.attempt, t.status, t.error_code, t.error_message
)
UPDATE task_attempts a
   SET ended_at = clock_timestamp(), error_code = r.error_code, error_message = r.error_message,
       outcome = CASE WHEN r.status = 'Canceled' THEN 'Canceled' ELSE 'LeaseExpired' END
  FROM reaped r
 WHERE a.task_id = r.id AND a.attempt = r.attempt
RETURNING a.task_id, a.attempt, a.worker_id;

-- name: requeue_due
-- Failed -> Queued when its time to retry has come; a Queued task whose wake-up seems lost is
-- announced again. Either way the outbox gets the announcement in the same statement.
WITH retries AS (
    SELECT id FROM tasks
     WHERE status = 'Failed' AND next_retry_at <= (SELECT clock_timestamp())
     ORDER BY next_retry_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), unheard AS (
    SELECT id FROM tasks
     WHERE status = 'Queued' AND announce_again_at <= (SELECT clock_timestamp())
     ORDER BY announce_again_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), queued AS (
    UPDATE tasks t
       SET status = 'Queued', next_retry_at = NULL, completed_at = NULL,
           announcements = t.announcements + 1,
           -- Ever rarer: a long queue is no sign of a lost message.
           announce_again_at = clock_timestamp() + make_interval(
               secs => least(3600, :announce_again_s * 2 ^ least(t.announcements, 10)))
      FROM (SELECT id FROM retries UNION ALL SELECT id FROM unheard) due
     WHERE t.id = due.id
    RETURNING t.id, t.job_id
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('queue', j.runtime, 'task_id', q.id)
      FROM queued q JOIN jobs j ON j.id = q.job_id
)
SELECT id FROM queued;

-- name: cancel_task^
-- Queued or waiting to retry: over at once. Running: the next heartbeat tells the worker.
UPDATE tasks
   SET cancel_requested_at = clock_timestamp(),
       status = CASE WHEN status = 'Running' THEN 'Running' ELSE 'Canceled' END,
       completed_at = CASE WHEN status = 'Running' THEN completed_at ELSE clock_timestamp() END,
       reaped_at = NULL, next_retry_at = NULL
 WHERE id = :task_id AND org_id = :org_id
   AND (status IN ('Queued', 'Running') OR (status = 'Failed' AND next_retry_at IS NOT NULL))
RETURNING id, status;

-- name: retry_task^
-- Failed or Canceled for good -> Queued, with all its attempts before it again.
WITH again AS (
    UPDATE tasks
       SET status = 'Queued', forgiven = attempt, reaped_at = NULL, next_retry_at = NULL,
           completed_at = NULL, cancel_requested_at = NULL, announcements = 0,
           announce_again_at = clock_timestamp() + interval '1 minute'
     WHERE id = :task_id AND org_id = :org_id
       AND (status = 'Canceled' OR (status = 'Failed' AND next_retry_at IS NULL))
    RETURNING id, job_id
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('queue', j.runtime, 'task_id', a.id)
      FROM again a JOIN jobs j ON j.id = a.job_id
)
SELECT id FROM again;

-- name: list_tasks
SELECT t.id AS task_id, j.dag_name, j.name AS job_name, t.status, t.attempt, t.progress,
       t.inputs, t.error_code, t.error_message, t.next_retry_at, t.created_at, t.started_at,
       t.completed_at
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id
   AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
   AND (:status::text IS NULL OR t.status = :status)
 ORDER BY t.created_at DESC, t.id LIMIT :limit;

-- name: count_tasks
SELECT j.name AS job_name,
       CASE WHEN t.status = 'Failed' AND t.next_retry_at IS NOT NULL THEN 'Retrying'
            ELSE t.status END AS status,
       count(*) AS tasks
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id AND j.dag_name = :dag_name
 GROUP BY 1, 2;
