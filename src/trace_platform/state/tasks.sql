-- name: claim_tasks
-- Queued -> Running, for one worker per task that is asked for. Runs of sources have slots of their own
-- and are asked for apart. Organisations take turns, the one with the least running first; within an
-- organisation the higher priority goes first, within a priority the jobs take turns, within a job
-- the oldest. A job at its limit or on hold gives nothing.
-- Only what is ready and what runs is read: neither history nor the length of a queue matters.
--
-- Its steps: which jobs have something ready (waiting), what each of them may start (running, shares,
-- free), the first tasks of each (candidates), whose turn it is (ordered, chosen), and the claim
-- itself (claimed, started).
WITH RECURSIVE waiting AS (
    -- Each job and priority with something ready: from one to the next by the index.
    (SELECT job_id, priority FROM tasks
      WHERE status = 'Queued' AND NOT pending_backpressure AND runtime = :runtime
      ORDER BY job_id, priority LIMIT 1)
    UNION ALL
    SELECT t.* FROM waiting w CROSS JOIN LATERAL (
        SELECT job_id, priority FROM tasks
         WHERE status = 'Queued' AND NOT pending_backpressure AND runtime = :runtime
           AND (job_id, priority) > (w.job_id, w.priority)
         ORDER BY job_id, priority LIMIT 1) t
), running AS MATERIALIZED (
    SELECT job_id, count(*) AS tasks FROM tasks WHERE status = 'Running' GROUP BY job_id
), shares AS MATERIALIZED (
    -- What each organisation runs now.
    SELECT j.org_id, sum(r.tasks) AS tasks
      FROM running r JOIN jobs j ON j.id = r.job_id
     WHERE (j.activation = 'source') = coalesce(:sources::boolean, j.activation = 'source')
     GROUP BY j.org_id
), free AS MATERIALIZED (
    -- Jobs that are not held, with the room that their limits leave.
    SELECT j.id, j.org_id, w.priority, coalesce(r.tasks, 0) AS running,
           least(cardinality(:worker_ids::text[]), j.max_concurrency - coalesce(r.tasks, 0)) AS room,
           -- Where many jobs wait, a few tasks of each are looked at: they take turns anyway.
           1 + 4 * cardinality(:worker_ids::text[]) / count(*) OVER (PARTITION BY w.priority) AS look
      FROM waiting w
      JOIN jobs j ON j.id = w.job_id
      LEFT JOIN running r ON r.job_id = j.id
     WHERE (j.activation = 'source') = coalesce(:sources::boolean, j.activation = 'source')
       AND NOT EXISTS (SELECT FROM job_holds h
                        WHERE h.org_id = j.org_id AND h.dag_name = j.dag_name
                          AND h.job_name = j.name AND h.from_rank <= w.priority)
), candidates AS (
    -- The oldest tasks of each, or those that were asked for by id.
    SELECT f.org_id, f.running, f.room, t.id, t.priority, t.queued_at,
           row_number() OVER (PARTITION BY f.id ORDER BY t.priority, t.queued_at, t.id) AS turn
      FROM free f CROSS JOIN LATERAL (
           (SELECT id, priority, queued_at FROM tasks
             WHERE :task_ids::uuid[] IS NULL AND job_id = f.id AND runtime = :runtime
               AND status = 'Queued' AND NOT pending_backpressure AND priority = f.priority
             ORDER BY queued_at, id LIMIT greatest(least(f.room, f.look), 0))
           UNION ALL
           SELECT id, priority, queued_at FROM tasks
            WHERE id = ANY(:task_ids::uuid[]) AND job_id = f.id
              AND status = 'Queued' AND NOT pending_backpressure AND priority = f.priority) t
), ordered AS (
    -- The turn of each among the tasks of its organisation, after what that runs already.
    SELECT c.id, c.priority, c.queued_at,
           coalesce(s.tasks, 0) + row_number() OVER (
               PARTITION BY c.org_id ORDER BY c.priority, c.running + c.turn, c.queued_at) AS org_turn
      FROM candidates c LEFT JOIN shares s ON s.org_id = c.org_id
     WHERE c.turn <= c.room
), chosen AS MATERIALIZED (
    -- As many as there are workers.
    SELECT array_agg(id ORDER BY org_turn, priority, queued_at, id) AS ids
      FROM (SELECT * FROM ordered ORDER BY org_turn, priority, queued_at, id
             LIMIT cardinality(:worker_ids::text[])) best
), claimed AS (
    -- Queued -> Running with a new attempt and a new lease; another claim may have been first.
    UPDATE tasks t
       SET status = 'Running', attempt = t.attempt + 1, lease_token = gen_random_uuid(),
           lease_expires_at = clock_timestamp() + make_interval(secs => j.heartbeat_timeout_seconds),
           reaped_at = NULL, next_retry_at = NULL, progress = NULL, error_code = NULL,
           error_message = NULL, absorbs = NULL, drain_requested_at = NULL,
           started_at = clock_timestamp(),
           worker_id = (:worker_ids::text[])[array_position((SELECT ids FROM chosen), t.id)],
           -- How far each input is: whatever this attempt reads, it reads that and all before it.
           inputs = CASE jsonb_array_length(t.inputs)
               WHEN 0 THEN t.inputs
               WHEN 1 THEN jsonb_set(t.inputs, '{0,read_at}', to_jsonb(coalesce((
                    SELECT v.position FROM dataset_versions v
                     WHERE v.version = (t.inputs->0->>'dataset_version')::uuid), 0)))
               ELSE (SELECT jsonb_agg(i.given || jsonb_build_object('read_at', coalesce((
                                SELECT v.position FROM dataset_versions v
                                 WHERE v.version = (i.given->>'dataset_version')::uuid), 0))
                                ORDER BY i.n)
                       FROM jsonb_array_elements(t.inputs) WITH ORDINALITY AS i (given, n)) END,
           -- The generations that this attempt writes: its commit may touch no other.
           outputs = (SELECT coalesce(jsonb_agg(jsonb_build_object(
                                 'output_index', d.output_index,
                                 'name', j.outputs[d.output_index + 1],
                                 'dataset_uuid', coalesce(s.uuid, d.uuid),
                                 'dataset_version', coalesce(s.current_version, g.version))
                                 || CASE WHEN s.uuid IS NULL THEN '{}'::jsonb
                                         ELSE '{"shared": true}' END
                                 ORDER BY d.output_index), '[]')
                        FROM dataset_versions g JOIN datasets d ON d.uuid = g.dataset_uuid
                        LEFT JOIN datasets s ON s.uuid = (
                             SELECT o.dataset_uuid FROM shared_outputs o
                              WHERE o.org_id = j.org_id AND o.dag_name = j.dag_name
                                AND o.job_name = j.name AND o.output_index = d.output_index
                                -- What is being built keeps to itself.
                                AND EXISTS (SELECT FROM dag_version_jobs v
                                              JOIN active_dags a
                                                ON a.dag_version_id = v.dag_version_id
                                             WHERE v.generation_id = t.generation_id))
                       WHERE g.generation_id = t.generation_id
                         AND d.output_index < cardinality(j.outputs))
      FROM jobs j
     -- By id, and looked at again: written so that the index of all that is ready does not apply.
     WHERE t.id = ANY ((SELECT ids FROM chosen)::uuid[]) AND t.status || '' = 'Queued'
       AND t.pending_backpressure::integer = 0 AND j.id = t.job_id
    RETURNING t.id, t.org_id, t.job_id, t.generation_id, t.runtime, t.attempt, t.inputs, t.outputs,
              j.operator, j.dag_name, j.name AS job_name, j.config, j.timeout_seconds,
              j.heartbeat_timeout_seconds, j.definition->'checks' AS checks, t.lease_token,
              t.lease_expires_at, t.worker_id, t.queued_at, t.started_at, t.knows,
              CASE WHEN j.definition->>'update_strategy' = 'append'
                   THEN j.definition->'unique_key' END AS append,
              j.execution_strategy IS NOT DISTINCT FROM 'Bulk'
                  OR j.pressure_mode IS NOT DISTINCT FROM 'coalesce' AS takes_several,
              (SELECT g.redone FROM generations g WHERE g.id = t.generation_id) AS redone
), started AS (
    -- Every attempt has a row of its own, whatever becomes of it.
    INSERT INTO task_attempts (task_id, attempt, lease_token, worker_id)
    SELECT id, attempt, lease_token, worker_id FROM claimed
)
SELECT c.*, (SELECT bool_or(look < room) FROM free) AS more
  FROM claimed c ORDER BY array_position((SELECT ids FROM chosen), c.id);

-- name: get_task^
SELECT t.id, t.org_id, t.job_id, t.generation_id, t.runtime, t.attempt, t.inputs,
       coalesce(t.outputs, '[]') AS outputs, j.operator, j.dag_name, j.name AS job_name, j.config,
       j.timeout_seconds, j.heartbeat_timeout_seconds, j.definition->'checks' AS checks, t.status, t.next_retry_at, t.error_code,
       t.error_message
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.id = :task_id;

-- name: extend_leases
-- A reaped attempt that nobody replaced yet takes its lease up again: only a lost fence stops work.
-- An operator that hangs past its time-out is kept alive by its worker's beats no longer.
WITH held AS MATERIALIZED (
    SELECT t.id, g.progress
      FROM tasks t
      JOIN unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[], :progress::jsonb[])
           AS g (task_id, attempt, lease_token, progress)
        ON t.id = g.task_id AND t.attempt = g.attempt AND t.lease_token = g.lease_token
     WHERE (t.status = 'Running' OR t.reaped_at IS NOT NULL)
     -- Everybody locks in one order, so that two batches never wait for each other in a circle.
     ORDER BY t.id FOR NO KEY UPDATE OF t
), extended AS (
    UPDATE tasks t
       SET status = 'Running', reaped_at = NULL, next_retry_at = NULL, error_code = NULL,
           error_message = NULL, completed_at = NULL, progress = coalesce(h.progress, t.progress),
           -- A source that a user paused ends, and gives its slot back; it is queued again, and waits
           -- until it is resumed. One that is held for a consumer goes on soon: it keeps its slot.
           drain_requested_at = CASE
               WHEN j.activation = 'source' AND t.drain_requested_at IS NULL
                    AND EXISTS (SELECT FROM job_holds p
                                 WHERE p.org_id = j.org_id AND p.dag_name = j.dag_name
                                   AND p.job_name = j.name AND p.cause = 'user')
               THEN clock_timestamp() ELSE t.drain_requested_at END,
           lease_expires_at = clock_timestamp() + make_interval(secs => j.heartbeat_timeout_seconds)
      FROM held h, jobs j
     WHERE t.id = h.id AND j.id = t.job_id
       AND clock_timestamp() < t.started_at + make_interval(secs => j.timeout_seconds + :grace_s)
    RETURNING t.id, t.attempt, t.lease_token, t.priority, t.lease_expires_at, t.cancel_requested_at,
              t.drain_requested_at, t.superseded, j.id AS job_id, j.activation, j.org_id, j.dag_name,
              j.name AS job_name
), resumed AS (
    UPDATE task_attempts a
       SET ended_at = NULL, outcome = NULL, error_code = NULL, error_message = NULL
      FROM extended e
     WHERE a.task_id = e.id AND a.attempt = e.attempt AND a.outcome = 'LeaseExpired'
)
SELECT e.id, e.attempt, e.lease_token, e.lease_expires_at,
       CASE -- A source that gave way finishes what it has begun.
            WHEN e.superseded AND e.activation = 'source' THEN 'drain'
            WHEN e.cancel_requested_at IS NOT NULL THEN 'cancel'
            -- Only a source runs on and on: others end by themselves.
            WHEN e.activation <> 'source' THEN 'continue'
            WHEN e.drain_requested_at IS NOT NULL THEN 'drain'
            WHEN NOT EXISTS (SELECT FROM dag_version_jobs v
                               JOIN active_dags a ON a.dag_version_id = v.dag_version_id
                              WHERE v.job_id = e.job_id) THEN 'drain'
            WHEN EXISTS (SELECT FROM job_holds h
                          WHERE h.org_id = e.org_id AND h.dag_name = e.dag_name
                            AND h.job_name = e.job_name AND h.from_rank <= e.priority) THEN 'pause'
            ELSE 'continue' END AS directive
  FROM extended e;

-- name: hold_fences
-- The rows stay locked until the transaction ends, so nothing can overtake what follows.
SELECT t.id, t.org_id, t.job_id, t.generation_id, t.runtime, t.attempt, t.inputs, t.outputs,
       j.operator, j.dag_name, j.name AS job_name, t.lease_token, t.priority, t.knows, t.superseded,
       t.cancel_requested_at, t.drain_requested_at, t.backfill_id, j.priority AS job_priority,
       j.max_concurrency,
       j.definition->>'update_strategy' AS update_strategy,
       j.execution_strategy IS NOT DISTINCT FROM 'Bulk'
           OR j.pressure_mode IS NOT DISTINCT FROM 'coalesce' AS takes_several
  FROM tasks t
  JOIN unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[])
       AS g (task_id, attempt, lease_token)
    ON t.id = g.task_id AND t.attempt = g.attempt AND t.lease_token = g.lease_token
  JOIN jobs j ON j.id = t.job_id
 WHERE (t.status = 'Running' OR t.reaped_at IS NOT NULL)
 ORDER BY t.id FOR NO KEY UPDATE OF t;

-- name: finish_tasks
-- Running (or reaped and not replaced) -> Completed | Canceled. No row back: the fence is lost.
WITH finished AS (
    UPDATE tasks t
       SET status = g.status, completed_at = clock_timestamp(), lease_expires_at = NULL,
           reaped_at = NULL, next_retry_at = NULL, error_code = g.error_code,
           error_message = g.error_message, outage_since = NULL
      FROM unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[],
                  :statuses::text[], :error_codes::text[], :error_messages::text[], :has_logs::boolean[])
           AS g (task_id, attempt, lease_token, status, error_code, error_message, has_log)
     WHERE t.id = g.task_id AND t.attempt = g.attempt AND t.lease_token = g.lease_token
       AND (t.status = 'Running' OR t.reaped_at IS NOT NULL)
    RETURNING t.id, t.attempt, t.lease_token, t.status, t.error_code, t.error_message, g.has_log
), left_behind AS (
    INSERT INTO leftovers (task_id, attempt)
    SELECT id, attempt FROM finished WHERE status <> 'Completed' ON CONFLICT DO NOTHING
), ended AS (
    UPDATE task_attempts a
       SET ended_at = clock_timestamp(), outcome = f.status, error_code = f.error_code,
           error_message = f.error_message, has_log = f.has_log
      FROM finished f
     WHERE a.task_id = f.id AND a.attempt = f.attempt AND a.lease_token = f.lease_token
)
SELECT id FROM finished;

-- name: fail_tasks
-- Running (or reaped and not replaced) -> Failed, with a time to retry when that can help, or
-- Canceled when that was asked for meanwhile. The retry comes no sooner than the attempt says. An
-- interrupted attempt is forgiven, within bounds: code that calls every attempt interrupted must not
-- run for ever. So is one that met an outage, for as long as an outage may last.
WITH failed AS (
    UPDATE tasks t
       SET status = CASE WHEN t.cancel_requested_at IS NULL THEN 'Failed' ELSE 'Canceled' END,
           completed_at = clock_timestamp(), lease_expires_at = NULL, reaped_at = NULL,
           error_code = g.error_code, error_message = g.error_message,
           outage_since = CASE WHEN g.outage THEN coalesce(t.outage_since, clock_timestamp()) END,
           forgiven = t.forgiven + (
               g.interrupted AND t.forgiven - t.outages < 100
               OR g.outage AND outage_is_young(t.outage_since, :outage_s))::integer,
           outages = t.outages + (
               g.outage AND NOT g.interrupted
               AND outage_is_young(t.outage_since, :outage_s))::integer,
           next_retry_at = CASE
               WHEN t.cancel_requested_at IS NOT NULL OR NOT g.retryable THEN NULL
               WHEN g.interrupted AND t.forgiven - t.outages < 100 THEN clock_timestamp()
               WHEN g.outage AND outage_is_young(t.outage_since, :outage_s)
               THEN clock_timestamp() + make_interval(secs => greatest(
                   g.retry_after_s, outage_delay_s(t.outage_since, :retry_base_s)))
               WHEN t.attempt - t.forgiven < j.max_attempts
               THEN clock_timestamp() + make_interval(secs => greatest(
                   g.retry_after_s, retry_delay_s(t.attempt - t.forgiven, :retry_base_s)))
           END
      FROM unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[],
                  :error_codes::text[], :error_messages::text[], :retryable::boolean[],
                  :retry_after_s::double precision[], :interrupted::boolean[], :outages::boolean[],
                  :has_logs::boolean[])
           AS g (task_id, attempt, lease_token, error_code, error_message, retryable,
                 retry_after_s, interrupted, outage, has_log), jobs j
     WHERE t.id = g.task_id AND t.attempt = g.attempt AND t.lease_token = g.lease_token
       AND (t.status = 'Running' OR t.reaped_at IS NOT NULL) AND j.id = t.job_id
    RETURNING t.id, t.attempt, t.lease_token, t.error_code, t.error_message, t.next_retry_at,
              g.has_log
), left_behind AS (
    INSERT INTO leftovers (task_id, attempt) SELECT id, attempt FROM failed ON CONFLICT DO NOTHING
), ended AS (
    UPDATE task_attempts a
       SET ended_at = clock_timestamp(), outcome = 'Failed', error_code = f.error_code,
           error_message = f.error_message, has_log = f.has_log
      FROM failed f
     WHERE a.task_id = f.id AND a.attempt = f.attempt AND a.lease_token = f.lease_token
)
SELECT id, next_retry_at FROM failed;

-- name: note_task!
UPDATE tasks SET note = :note
 WHERE id = :id AND attempt = :attempt AND lease_token = :lease_token;

-- name: announce_next!
-- A job with a limit has only so many of its tasks announced: one that ends makes room for another.
-- A wake-up per end, even when nothing seems to wait: a task that is routed at this moment may have
-- had its own wasted on a claim that still saw the limit reached. It needs a task's id to be one, and
-- any will do.
WITH freed AS (
    SELECT j.id, j.runtime, j.activation = 'source' AS sources,
           array_agg(f.task_id ORDER BY f.task_id) AS ended
      FROM unnest(:job_ids::uuid[], :task_ids::uuid[]) AS f (job_id, task_id)
      JOIN jobs j ON j.id = f.job_id AND j.max_concurrency IS NOT NULL
     GROUP BY j.id
), next AS (
    SELECT f.runtime, f.sources, coalesce(w.id, f.ended[slot.n]) AS id
      FROM freed f
     CROSS JOIN LATERAL generate_series(1, cardinality(f.ended)) AS slot (n)
      LEFT JOIN LATERAL (
           SELECT id, row_number() OVER (ORDER BY priority, queued_at, id) AS place
             FROM (SELECT id, priority, queued_at FROM tasks
                    WHERE job_id = f.id AND runtime = f.runtime
                      AND status = 'Queued' AND NOT pending_backpressure
                    ORDER BY priority, queued_at, id LIMIT cardinality(f.ended)) first) w
        ON w.place = slot.n
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', sources,
                                     'task_ids', jsonb_agg(id))
  FROM next GROUP BY runtime, sources;

-- name: ended_outcomes
-- How these very attempts ended: tells a repeated report from a stale one.
SELECT a.task_id, a.outcome, a.error_code
  FROM task_attempts a
  JOIN unnest(:task_ids::uuid[], :attempts::integer[], :lease_tokens::uuid[])
       AS g (task_id, attempt, lease_token)
    ON a.task_id = g.task_id AND a.attempt = g.attempt AND a.lease_token = g.lease_token;

-- name: expired_leases
SELECT id FROM tasks
 WHERE status = 'Running' AND lease_expires_at < (SELECT clock_timestamp())
 ORDER BY lease_expires_at LIMIT :limit;

-- name: abandoned_leases
-- What workers of this identity hold that were there before this incarnation of it: they have ended.
SELECT id FROM tasks
 WHERE status = 'Running' AND split_part(worker_id, '#', 1) = :identity
   AND substring(worker_id FROM '#([0-9]{1,15})/')::bigint < :incarnation
 ORDER BY id;

-- name: reap_leases
-- Running -> Failed (or Canceled, when that was asked for) once the lease ran out, or at once when
-- another incarnation of the worker says that this one has ended.
WITH due AS MATERIALIZED (
    SELECT id FROM tasks
     WHERE id = ANY(:task_ids) AND status = 'Running'
       AND (lease_expires_at < (SELECT clock_timestamp())
            OR (split_part(worker_id, '#', 1) = :identity
                AND substring(worker_id FROM '#([0-9]{1,15})/')::bigint < :incarnation))
     ORDER BY id FOR UPDATE SKIP LOCKED
), reaped AS (
    UPDATE tasks t
       SET status = CASE WHEN t.cancel_requested_at IS NULL THEN 'Failed' ELSE 'Canceled' END,
           reaped_at = CASE WHEN t.cancel_requested_at IS NULL THEN clock_timestamp() END,
           completed_at = clock_timestamp(), lease_expires_at = NULL, outage_since = NULL,
           error_code = CASE WHEN :identity::text IS NULL THEN 'lease_expired' ELSE 'worker_lost' END,
           error_message = CASE WHEN :identity::text IS NULL
               THEN 'no heartbeat from ' || t.worker_id || ' within '
                    || j.heartbeat_timeout_seconds || ' s'
               ELSE t.worker_id || ' ended without a word, and was started again' END,
           next_retry_at = CASE WHEN t.cancel_requested_at IS NULL
               AND t.attempt - t.forgiven < j.max_attempts THEN clock_timestamp() END
      FROM due, jobs j
     WHERE t.id = due.id AND j.id = t.job_id
    RETURNING t.id, t.job_id, t.attempt, t.status, t.error_code, t.error_message
), left_behind AS (
    INSERT INTO leftovers (task_id, attempt) SELECT id, attempt FROM reaped ON CONFLICT DO NOTHING
), ended AS (
    UPDATE task_attempts a
       SET ended_at = clock_timestamp(), error_code = r.error_code, error_message = r.error_message,
           outcome = CASE WHEN r.status = 'Canceled' THEN 'Canceled' ELSE 'LeaseExpired' END
      FROM reaped r
     WHERE a.task_id = r.id AND a.attempt = r.attempt
    RETURNING a.task_id, a.attempt, a.worker_id
)
SELECT j.org_id AS org, j.dag_name AS dag, j.name AS job, e.task_id AS task, e.attempt,
       e.worker_id AS worker, r.job_id
  FROM ended e JOIN reaped r ON r.id = e.task_id JOIN jobs j ON j.id = r.job_id;

-- name: next_in_line
SELECT id FROM tasks
 WHERE status = 'Queued' AND NOT pending_backpressure AND runtime = :runtime
 ORDER BY priority, queued_at, id LIMIT :limit;

-- name: due_tasks
(SELECT id FROM tasks
  WHERE status = 'Failed' AND next_retry_at <= (SELECT clock_timestamp())
  ORDER BY next_retry_at LIMIT :limit)
UNION ALL
(SELECT id FROM tasks
  WHERE status = 'Queued' AND NOT pending_backpressure
    AND announcements >= 0 AND announce_again_at <= (SELECT clock_timestamp())
  ORDER BY announce_again_at LIMIT :limit);

-- name: requeue_due
-- Failed -> Queued when its time to retry has come; a Queued task whose wake-up seems lost is
-- announced again, of a job with a limit no more than that. Either way the outbox gets the
-- announcement in the same statement.
WITH retries AS MATERIALIZED (
    SELECT id FROM tasks
     WHERE id = ANY(:task_ids) AND status = 'Failed'
       AND next_retry_at <= (SELECT clock_timestamp())
       FOR UPDATE SKIP LOCKED
), unheard AS MATERIALIZED (
    SELECT id FROM tasks
     WHERE id = ANY(:task_ids) AND status = 'Queued' AND NOT pending_backpressure
       AND announcements >= 0 AND announce_again_at <= (SELECT clock_timestamp())
       FOR UPDATE SKIP LOCKED
), queued AS (
    UPDATE tasks t
       SET status = 'Queued', next_retry_at = NULL, completed_at = NULL,
           queued_at = CASE WHEN t.status = 'Failed' THEN clock_timestamp() ELSE t.queued_at END,
           announcements = t.announcements + 1,
           -- Ever rarer: a long queue is no sign of a lost message.
           announce_again_at = clock_timestamp() + make_interval(
               secs => least(3600, :announce_again_s * 2 ^ least(t.announcements, 10)))
      FROM (SELECT id, true AS retried FROM retries UNION ALL SELECT id, false FROM unheard) due
     WHERE t.id = due.id
    RETURNING t.id, t.job_id, t.runtime, t.priority, t.queued_at, due.retried
), told AS (
    SELECT q.id, q.runtime, j.activation = 'source' AS sources, j.max_concurrency,
           row_number() OVER (PARTITION BY q.job_id ORDER BY q.priority, q.queued_at) AS n
      FROM queued q JOIN jobs j ON j.id = q.job_id
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', sources,
                                         'task_ids', jsonb_agg(id))
      FROM told WHERE max_concurrency IS NULL OR n <= max_concurrency GROUP BY runtime, sources
)
SELECT id, retried FROM queued;

-- name: cancel_tasks
-- Queued or waiting to retry: over at once. Running: the next heartbeat tells the worker.
UPDATE tasks
   SET cancel_requested_at = clock_timestamp(), absorbs = NULL,
       status = CASE WHEN status = 'Running' THEN 'Running' ELSE 'Canceled' END,
       completed_at = CASE WHEN status = 'Running' THEN completed_at ELSE clock_timestamp() END,
       reaped_at = NULL, next_retry_at = NULL, pending_backpressure = false, outage_since = NULL
 WHERE id = ANY(:task_ids::uuid[]) AND org_id = :org_id
   AND (status IN ('Queued', 'Running') OR (status = 'Failed' AND next_retry_at IS NOT NULL))
RETURNING id, status;

-- name: retry_tasks
-- Failed or Canceled for good -> Queued, with all its attempts before it again.
WITH again AS (
    UPDATE tasks
       SET status = 'Queued', forgiven = attempt, outages = attempt, reaped_at = NULL, next_retry_at = NULL,
           completed_at = NULL, cancel_requested_at = NULL, announcements = 0, outage_since = NULL,
           queued_at = clock_timestamp(),
           announce_again_at = clock_timestamp() + interval '1 minute'
     WHERE id = ANY(:task_ids::uuid[]) AND org_id = :org_id AND NOT superseded
       -- Of a version that is read, or being built: others commit nothing.
       AND EXISTS (SELECT FROM dag_version_jobs v
                    WHERE v.generation_id = tasks.generation_id
                      AND (EXISTS (SELECT FROM active_dags a
                                    WHERE a.dag_version_id = v.dag_version_id)
                           OR EXISTS (SELECT FROM deploys d WHERE d.to_version = v.dag_version_id
                                         AND d.status = 'Building')))
       AND (status = 'Canceled' OR (status = 'Failed' AND next_retry_at IS NULL))
    RETURNING id, runtime, dedupe_key = 'run' AS sources
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', sources,
                                         'task_ids', jsonb_agg(id ORDER BY id))
      FROM again GROUP BY runtime, sources
)
SELECT id FROM again;

-- name: retryable
-- What ended badly between two moments and may be done again; the runs of sources are no work.
SELECT t.id, j.dag_name, j.name AS job_name, t.status
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id AND t.status = :status AND t.next_retry_at IS NULL AND NOT t.superseded
   AND t.dedupe_key <> 'run'
   AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
   AND (:job_name::text IS NULL OR j.name = :job_name)
   AND (:since::timestamptz IS NULL OR t.completed_at >= :since) AND t.completed_at <= :until
   AND EXISTS (SELECT FROM dag_version_jobs v
                WHERE v.generation_id = t.generation_id
                  AND (EXISTS (SELECT FROM active_dags a
                                WHERE a.dag_version_id = v.dag_version_id)
                       OR EXISTS (SELECT FROM deploys d WHERE d.to_version = v.dag_version_id
                                     AND d.status = 'Building')))
 ORDER BY t.id LIMIT :limit;

-- name: cancelable
-- What was made between two moments and has not ended; the runs of sources are no work.
SELECT t.id, j.dag_name, j.name AS job_name, t.status
  FROM live_tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id AND t.cancel_requested_at IS NULL AND t.dedupe_key <> 'run'
   AND (:status::text IS NULL OR t.status = :status)
   AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
   AND (:job_name::text IS NULL OR j.name = :job_name)
   AND (:since::timestamptz IS NULL OR t.created_at >= :since) AND t.created_at <= :until
 ORDER BY t.id LIMIT :limit;

-- name: list_tasks
-- The newest first: an id begins with the time it was made.
SELECT t.id AS task_id, j.dag_name, j.name AS job_name, t.status, t.attempt, t.progress,
       t.inputs, t.error_code, t.error_message, t.next_retry_at, t.created_at, t.started_at,
       t.completed_at, t.pending_backpressure, t.note
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id
   AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
   AND (:job_name::text IS NULL OR j.name = :job_name)
   AND (:status::text IS NULL OR t.status = :status)
 ORDER BY t.id DESC LIMIT :limit;

-- name: attempts_of
SELECT attempt, worker_id, started_at, ended_at, outcome, error_code, error_message, has_log
  FROM task_attempts WHERE task_id = :task_id ORDER BY attempt;

-- name: count_tasks
-- What is alive, whatever its age, and what was made since. The run of a source is no work to be done.
SELECT j.name AS job_name,
       CASE WHEN t.status = 'Failed' AND t.next_retry_at IS NOT NULL THEN 'Retrying'
            ELSE t.status END AS status,
       count(*) AS tasks,
       min(t.created_at) FILTER (WHERE t.status IN ('Queued', 'Running')
                                    OR t.next_retry_at IS NOT NULL) AS oldest_open
  FROM (SELECT job_id, dedupe_key, status, next_retry_at, created_at FROM tasks
         WHERE org_id = :org_id AND id >= uuid7_at(:since)
        UNION ALL
        SELECT job_id, dedupe_key, status, next_retry_at, created_at FROM tasks
         WHERE org_id = :org_id AND id < uuid7_at(:since) AND status = 'Running'
        UNION ALL
        SELECT job_id, dedupe_key, status, next_retry_at, created_at FROM tasks
         WHERE org_id = :org_id AND id < uuid7_at(:since) AND status = 'Queued'
           AND NOT pending_backpressure
        UNION ALL
        SELECT job_id, dedupe_key, status, next_retry_at, created_at FROM tasks
         WHERE org_id = :org_id AND id < uuid7_at(:since) AND status = 'Queued'
           AND pending_backpressure
        UNION ALL
        SELECT job_id, dedupe_key, status, next_retry_at, created_at FROM tasks
         WHERE org_id = :org_id AND id < uuid7_at(:since) AND status = 'Failed'
           AND next_retry_at IS NOT NULL) t
  JOIN jobs j ON j.id = t.job_id
 WHERE j.dag_name = :dag_name AND t.dedupe_key <> 'run'
 GROUP BY 1, 2;

-- name: split
-- A task for each part of what woke this one. They stand for it: what was said to be invalid waits
-- for all of them, and the memo still points at the first of all, whose parts they are.
WITH whole AS MATERIALIZED (
    SELECT * FROM tasks WHERE id = :task_id
), parts AS MATERIALIZED (
    SELECT * FROM unnest(:inputs::jsonb[]) WITH ORDINALITY AS p (inputs, n)
), made AS (
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       backfill_id, part_of)
    SELECT w.org_id, w.job_id, w.generation_id,
           w.dedupe_key || '/' || w.attempt || ':' || (p.inputs->0->>'partition_key'),
           w.runtime, w.priority, p.inputs, w.backfill_id, coalesce(w.part_of, w.id)
      FROM whole w CROSS JOIN parts p ORDER BY p.n
        ON CONFLICT (generation_id, dedupe_key) DO NOTHING
    RETURNING id, job_id, runtime
), linked AS (
    INSERT INTO invalidation_tasks (invalidation_id, task_id)
    SELECT i.invalidation_id, m.id FROM invalidation_tasks i CROSS JOIN made m
     WHERE i.task_id = :task_id AND i.processed_at IS NULL
        ON CONFLICT DO NOTHING
), ready AS (
    SELECT m.id, m.runtime, j.max_concurrency, row_number() OVER (ORDER BY m.id) AS n
      FROM made m JOIN jobs j ON j.id = m.job_id
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id ORDER BY id))
  FROM (SELECT id, runtime, (row_number() OVER (PARTITION BY runtime ORDER BY id) - 1) / 500 AS chunk
          FROM ready WHERE max_concurrency IS NULL OR n <= max_concurrency) c
 GROUP BY runtime, chunk
RETURNING id;
