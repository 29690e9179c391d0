-- name: due_runs
-- The always_on sources of active versions whose run needs something done about it. A run is found by
-- its identity: however long the history is, one row is read per source.
SELECT d.* FROM (
    SELECT j.id AS job_id, j.org_id, j.dag_name, j.name AS job_name, j.runtime, j.priority,
           v.generation_id, r.id AS run_id, r.attempt, r.error_code,
           CASE WHEN r.id IS NULL THEN 'make'
                -- Only a user cancels a run that did not give way to another.
                WHEN r.status = 'Canceled' AND r.cancel_requested_at IS NOT NULL
                     AND NOT r.superseded THEN NULL
                WHEN r.status = 'Canceled' THEN 'restart'
                WHEN r.status = 'Completed' AND (r.drain_requested_at IS NOT NULL
                                                 OR r.job_id <> j.id) THEN 'restart'
                WHEN r.status = 'Completed' THEN 'wait'
                WHEN r.status = 'Failed' AND r.next_retry_at IS NULL THEN 'wait'
                WHEN r.status = 'Running' THEN
                     CASE WHEN r.started_at < clock_timestamp() - make_interval(secs => :well_s)
                               AND (r.forgiven < r.attempt - 1 OR r.outage_since IS NOT NULL)
                          THEN 'forgive' END
                WHEN (r.job_id, r.runtime, r.priority) <> (j.id, j.runtime, j.priority) THEN 'adopt'
           END AS due
      FROM active_dags a
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      JOIN jobs j ON j.id = v.job_id AND j.activation = 'source' AND j.source->>'kind' = 'always_on'
      LEFT JOIN LATERAL (
           SELECT * FROM tasks t
            WHERE t.generation_id = v.generation_id AND t.dedupe_key = 'run' LIMIT 1) r ON true) d
 WHERE d.due IS NOT NULL
 ORDER BY d.run_id;

-- name: always_on_elsewhere
-- How many sources of other DAGs run without end, by runtime. One that is paused has no slot.
SELECT j.runtime, count(*) AS sources
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'source' AND j.source->>'kind' = 'always_on'
 WHERE a.org_id = :org_id AND a.dag_name <> :dag_name
   AND NOT EXISTS (SELECT FROM job_holds h
                    WHERE h.org_id = j.org_id AND h.dag_name = j.dag_name AND h.job_name = j.name
                      AND h.cause = 'user')
 GROUP BY j.runtime;

-- name: make_runs
WITH made AS (
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)
    SELECT org_id, job_id, generation_id, 'run', runtime, priority, '[]'
      FROM unnest(:org_ids::uuid[], :job_ids::uuid[], :generation_ids::uuid[], :runtimes::text[],
                  :priorities::smallint[])
           AS g (org_id, job_id, generation_id, runtime, priority)
        ON CONFLICT (generation_id, dedupe_key) DO NOTHING
    RETURNING id, runtime
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', true,
                                         'task_ids', jsonb_agg(id))
      FROM made GROUP BY runtime
)
SELECT id FROM made;

-- name: restart_runs
-- Completed, as it was told to, or Canceled, because it had given way -> Queued, at once.
WITH again AS (
    UPDATE tasks t
       SET status = 'Queued', job_id = g.job_id, runtime = g.runtime, priority = g.priority,
           forgiven = t.attempt, superseded = false, cancel_requested_at = NULL,
           drain_requested_at = NULL, reaped_at = NULL, next_retry_at = NULL, completed_at = NULL,
           error_code = NULL, error_message = NULL, announcements = 0,
           queued_at = clock_timestamp(),
           announce_again_at = clock_timestamp() + interval '1 minute'
      FROM unnest(:run_ids::uuid[], :attempts::integer[], :job_ids::uuid[], :runtimes::text[],
                  :priorities::smallint[]) AS g (run_id, attempt, job_id, runtime, priority)
     WHERE t.id = g.run_id AND t.attempt = g.attempt AND t.status IN ('Completed', 'Canceled')
    RETURNING t.id, t.runtime
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', true,
                                         'task_ids', jsonb_agg(id))
      FROM again GROUP BY runtime
)
SELECT id FROM again;

-- name: delay_runs
-- Ended by itself -> Failed with a time to retry, as any other failure: a source has no end.
UPDATE tasks t
   SET status = 'Failed', job_id = g.job_id, runtime = g.runtime, priority = g.priority,
       superseded = false, cancel_requested_at = NULL,
       error_code = coalesce(t.error_code, 'source_ended'),
       error_message = coalesce(t.error_message, 'the source ended, and nobody had told it to'),
       next_retry_at = clock_timestamp() + make_interval(
           secs => retry_delay_s(greatest(t.attempt - t.forgiven, 1), :retry_base_s))
  FROM unnest(:run_ids::uuid[], :attempts::integer[], :job_ids::uuid[], :runtimes::text[],
              :priorities::smallint[]) AS g (run_id, attempt, job_id, runtime, priority)
 WHERE t.id = g.run_id AND t.attempt = g.attempt
   AND (t.status = 'Completed' OR t.status = 'Failed' AND t.next_retry_at IS NULL)
RETURNING t.id;

-- name: forgive_runs
-- It runs well: what failed before it does not make the next pause longer, and what was away is back.
UPDATE tasks t SET forgiven = t.attempt - 1, outage_since = NULL
  FROM unnest(:run_ids::uuid[], :attempts::integer[]) AS g (run_id, attempt)
 WHERE t.id = g.run_id AND t.attempt = g.attempt AND t.status = 'Running'
RETURNING t.id;

-- name: adopt_runs
-- Waiting under a definition that is not the active one; announced anew, for the runtime may differ.
UPDATE tasks t
   SET job_id = g.job_id, runtime = g.runtime, priority = g.priority,
       announce_again_at = clock_timestamp()
  FROM unnest(:run_ids::uuid[], :attempts::integer[], :job_ids::uuid[], :runtimes::text[],
              :priorities::smallint[]) AS g (run_id, attempt, job_id, runtime, priority)
 WHERE t.id = g.run_id AND t.attempt = g.attempt AND t.status IN ('Queued', 'Failed')
RETURNING t.id;

-- name: begin_ticks
-- A schedule that is new, or another than in the version before, counts from when it became active:
-- it owes nothing of the time before.
WITH cron AS MATERIALIZED (
    SELECT a.org_id, a.dag_name, j.name AS job_name, a.activated_at,
           j.source->>'schedule' AS schedule, j.source->>'timezone' AS timezone,
           (SELECT d.from_version FROM deploys d
             WHERE d.org_id = a.org_id AND d.dag_name = a.dag_name
               AND d.to_version = a.dag_version_id AND d.status = 'CutOver'
             ORDER BY d.id DESC LIMIT 1) AS version_before
      FROM active_dags a
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      JOIN jobs j ON j.id = v.job_id AND j.activation = 'source' AND j.source->>'kind' = 'cron'
)
INSERT INTO source_ticks (org_id, dag_name, job_name, last_tick)
SELECT c.org_id, c.dag_name, c.job_name, c.activated_at
  FROM cron c
  LEFT JOIN source_ticks s ON s.org_id = c.org_id AND s.dag_name = c.dag_name
                          AND s.job_name = c.job_name
 WHERE s.last_tick IS NULL
    OR s.last_tick < c.activated_at AND NOT EXISTS (
       SELECT FROM dag_version_jobs v JOIN jobs j ON j.id = v.job_id
        WHERE v.dag_version_id = c.version_before AND j.name = c.job_name
          AND j.source->>'kind' = 'cron' AND j.source->>'schedule' = c.schedule
          AND j.source->>'timezone' = c.timezone)
    ON CONFLICT (org_id, dag_name, job_name) DO UPDATE
   SET last_tick = excluded.last_tick WHERE source_ticks.last_tick < excluded.last_tick
RETURNING job_name;

-- name: schedules
-- The cron sources of active versions, once it is known from when they count.
SELECT j.dag_name, j.name AS job_name, j.source->>'schedule' AS schedule,
       j.source->>'timezone' AS timezone, j.source->>'missed' AS missed, s.last_tick,
       EXISTS (SELECT FROM job_holds h
                WHERE h.org_id = j.org_id AND h.dag_name = j.dag_name AND h.job_name = j.name
                  AND h.from_rank <= j.priority) AS on_hold
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'source' AND j.source->>'kind' = 'cron'
  JOIN source_ticks s ON s.org_id = a.org_id AND s.dag_name = a.dag_name AND s.job_name = j.name
 WHERE a.org_id = :org_id
 ORDER BY j.dag_name, j.name;

-- name: now$
SELECT clock_timestamp();

-- name: hold_ticks^
-- Locked: of two that bring the same ticks, the second sees what the first did.
SELECT last_tick, clock_timestamp() AS now FROM source_ticks
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name
   FOR UPDATE;

-- name: move_ticks!
UPDATE source_ticks SET last_tick = :last_tick
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name
   AND last_tick < :last_tick;

-- name: listing
-- Every source of an active version: its run if it has one, its newest tick and its newest event.
SELECT j.dag_name, j.name AS job_name, j.source->>'kind' AS kind, j.source, j.runtime,
       EXISTS (SELECT FROM job_holds h
                WHERE h.org_id = j.org_id AND h.dag_name = j.dag_name AND h.job_name = j.name
                  AND h.from_rank <= j.priority) AS on_hold,
       r.id AS run_id, r.status, r.attempt, r.error_code, r.error_message, r.next_retry_at,
       r.superseded, r.drain_requested_at, r.cancel_requested_at, r.progress,
       extract(epoch FROM clock_timestamp() - r.completed_at)::float8 AS ended_s,
       s.last_tick, clock_timestamp() AS now,
       (SELECT extract(epoch FROM clock_timestamp() - n.recorded_at)::float8
          FROM datasets d CROSS JOIN LATERAL (
               SELECT id, recorded_at FROM events
                WHERE dataset_uuid = d.uuid ORDER BY id DESC LIMIT 1) n
         WHERE d.org_id = j.org_id AND d.dag_name = j.dag_name AND d.job_name = j.name
         ORDER BY n.id DESC LIMIT 1) AS last_event_s
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'source'
  LEFT JOIN LATERAL (
       SELECT * FROM tasks t
        WHERE t.generation_id = v.generation_id AND t.dedupe_key = 'run' LIMIT 1) r ON true
  LEFT JOIN source_ticks s ON s.org_id = a.org_id AND s.dag_name = a.dag_name
                          AND s.job_name = j.name
 WHERE a.org_id = :org_id
 ORDER BY j.dag_name, j.name;

-- name: leaving
-- Runs of versions that gave way, as long as they have not ended.
SELECT j.dag_name, j.name AS job_name, j.source->>'kind' AS kind, t.id AS run_id, t.attempt
  FROM tasks t JOIN jobs j ON j.id = t.job_id AND j.activation = 'source'
 WHERE t.status = 'Running' AND j.org_id = :org_id AND t.dedupe_key = 'run'
   AND NOT EXISTS (SELECT FROM active_dags a
                     JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
                    WHERE a.org_id = j.org_id AND a.dag_name = j.dag_name
                      AND v.generation_id = t.generation_id)
 ORDER BY j.dag_name, j.name;

-- name: hook^
-- A source by its names, whether or not it takes deliveries, and where they go.
SELECT j.source->>'kind' AS kind, j.source->>'secret' AS secret, d.uuid AS dataset_uuid,
       d.current_version AS dataset_version
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'source'
  JOIN datasets d ON d.org_id = j.org_id AND d.dag_name = j.dag_name AND d.job_name = j.name
                 AND d.output_index = 0
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name AND j.name = :job_name;
