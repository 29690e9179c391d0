-- name: measure
-- The queues of jobs that have limits, that are under pressure, or that have deferred tasks. Of each
-- at most a few times its limit is read, in the order of an index, so neither history nor a very
-- long queue costs anything. A job that is not active any more has no mode: nothing limits it.
WITH RECURSIVE deferred AS (
    (SELECT job_id FROM tasks
      WHERE status = 'Queued' AND pending_backpressure ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.job_id FROM tasks t
             WHERE t.status = 'Queued' AND t.pending_backpressure AND t.job_id > d.job_id
             ORDER BY t.job_id LIMIT 1)
      FROM deferred d WHERE d.job_id IS NOT NULL
), limited AS MATERIALIZED (
    SELECT j.id
      FROM active_dags a
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      JOIN jobs j ON j.id = v.job_id
     WHERE j.pressure_mode IS NOT NULL
), concerned AS MATERIALIZED (
    SELECT j.*, coalesce(:times * j.max_queue_depth::bigint, :at_least) + 1 AS enough
      FROM (SELECT id FROM limited
            UNION SELECT job_id FROM deferred
            UNION SELECT job_id FROM job_pressure) c
      JOIN jobs j ON j.id = c.id
)
SELECT c.id AS job_id, c.dag_name || '.' || c.name AS name,
       CASE WHEN l.id IS NOT NULL THEN c.pressure_mode END AS mode,
       c.max_queue_depth AS max_depth, c.max_queue_age_s AS max_age_s,
       ready.tasks AS ready, greatest(ready.age_s, 0) AS ready_age_s,
       pending.tasks AS pending, greatest(pending.age_s, 0) AS pending_age_s, p.from_rank
  FROM concerned c
  LEFT JOIN limited l ON l.id = c.id
  LEFT JOIN job_pressure p ON p.job_id = c.id
 CROSS JOIN LATERAL (
       SELECT count(*) AS tasks,
              extract(epoch FROM clock_timestamp() - min(t.queued_at))::float8 AS age_s
         FROM (SELECT queued_at FROM tasks
                WHERE runtime = c.runtime AND job_id = c.id
                  AND status = 'Queued' AND NOT pending_backpressure
                ORDER BY priority, queued_at LIMIT c.enough) t) ready
 CROSS JOIN LATERAL (
       SELECT count(*) AS tasks,
              extract(epoch FROM clock_timestamp() - min(t.queued_at))::float8 AS age_s
         FROM (SELECT queued_at FROM tasks
                WHERE job_id = c.id AND status = 'Queued' AND pending_backpressure
                ORDER BY priority, queued_at LIMIT c.enough) t) pending;

-- name: set_levels!
INSERT INTO job_pressure (job_id, from_rank, depth, age_s)
SELECT * FROM unnest(:job_ids::uuid[], :from_ranks::smallint[], :depths::bigint[], :ages_s::float8[])
    ON CONFLICT (job_id) DO UPDATE
   SET from_rank = excluded.from_rank, depth = excluded.depth, age_s = excluded.age_s;

-- name: clear_levels!
DELETE FROM job_pressure WHERE job_id = ANY(:job_ids);

-- name: defer_excess!
-- Ready -> pending: the newest of the lowest tier, until as many are left as may wait. What somebody
-- claims or cancels right now leaves the queue by itself, so nobody is waited for.
WITH excess AS MATERIALIZED (
    SELECT t.id FROM jobs j CROSS JOIN LATERAL (
        SELECT id FROM tasks
         WHERE runtime = j.runtime AND job_id = j.id
           AND status = 'Queued' AND NOT pending_backpressure
         ORDER BY priority DESC, queued_at DESC, id DESC
         LIMIT (SELECT greatest(count(*) - j.max_queue_depth, 0) FROM tasks
                 WHERE runtime = j.runtime AND job_id = j.id
                   AND status = 'Queued' AND NOT pending_backpressure)
           FOR NO KEY UPDATE SKIP LOCKED) t
     WHERE j.id = ANY(:job_ids)
)
UPDATE tasks t SET pending_backpressure = true FROM excess e WHERE t.id = e.id;

-- name: drop_excess!
-- Queued -> Canceled: the oldest of the lowest tier, until as many are left as may wait. A task for
-- which rows have to give way is never dropped: they would stay, and are known to be wrong.
WITH excess AS MATERIALIZED (
    SELECT t.id, format('%s.%s keeps %s queued tasks: this one was older', j.dag_name, j.name,
                        to_char(j.max_queue_depth, 'FM9,999,999,999')) AS said
      FROM jobs j CROSS JOIN LATERAL (
        SELECT id FROM tasks
         WHERE runtime = j.runtime AND job_id = j.id
           AND status = 'Queued' AND NOT pending_backpressure
           AND NOT inputs @> '[{"replaces": true}]'
         ORDER BY priority DESC, queued_at, id
         LIMIT (SELECT greatest(count(*) - j.max_queue_depth, 0) FROM tasks
                 WHERE runtime = j.runtime AND job_id = j.id
                   AND status = 'Queued' AND NOT pending_backpressure)
           FOR NO KEY UPDATE SKIP LOCKED) t
     WHERE j.id = ANY(:job_ids)
)
UPDATE tasks t
   SET status = 'Canceled', completed_at = clock_timestamp(), absorbs = NULL, reaped_at = NULL,
       error_code = 'dropped_by_backpressure', error_message = e.said
  FROM excess e WHERE t.id = e.id;

-- name: promote_tasks$
-- Pending -> ready, in order, announced like new ones. Their time in the queue starts now, a
-- microsecond apart to stay in order; written more slowly than that, they never overtake a later
-- promotion.
WITH chosen AS MATERIALIZED (
    SELECT t.*, j.id AS job_id, j.max_concurrency
      FROM unnest(:job_ids::uuid[], :rooms::bigint[]) AS g (job_id, room)
      JOIN jobs j ON j.id = g.job_id
     CROSS JOIN LATERAL (
        SELECT id, priority, queued_at FROM tasks
         WHERE job_id = g.job_id AND status = 'Queued' AND pending_backpressure
         ORDER BY priority, queued_at, id LIMIT g.room
           FOR NO KEY UPDATE SKIP LOCKED) t
), ordered AS (
    SELECT id, max_concurrency,
           row_number() OVER (PARTITION BY job_id ORDER BY priority, queued_at, id) AS n
      FROM chosen
), promoted AS (
    UPDATE tasks t
       SET pending_backpressure = false, announcements = 0,
           queued_at = (SELECT clock_timestamp()) + o.n * interval '1 microsecond',
           announce_again_at = clock_timestamp() + interval '1 minute'
      FROM ordered o WHERE t.id = o.id
    RETURNING t.id, t.runtime, o.n, o.max_concurrency
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id ORDER BY n))
      FROM (SELECT id, runtime, n,
                   (row_number() OVER (PARTITION BY runtime ORDER BY n) - 1) / 500 AS chunk
              FROM promoted WHERE max_concurrency IS NULL OR n <= max_concurrency) c
     GROUP BY runtime, chunk
)
SELECT count(*) FROM promoted;

-- name: hold_upstream
-- Everything upstream of these jobs is held as far as they are; what is no longer so is given back.
-- None is held for itself. Jobs never feed each other in a circle: `refuse_cycles.py`.
WITH RECURSIVE pressed AS (
    SELECT * FROM unnest(:job_ids::uuid[], :from_ranks::smallint[], :reasons::text[])
                  AS p (job_id, from_rank, reason)
), upstream AS (
    SELECT job_id AS cause, job_id FROM pressed
     UNION
    SELECT u.cause, j.id
      FROM upstream u
      JOIN subscriptions e ON e.job_id = u.job_id
      JOIN datasets d ON d.uuid = e.dataset_uuid
      JOIN active_dags a ON a.org_id = d.org_id AND a.dag_name = d.dag_name
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      JOIN jobs j ON j.id = v.job_id AND j.name = d.job_name
), wanted AS MATERIALIZED (
    SELECT j.org_id, j.dag_name, j.name AS job_name, u.cause::text AS cause, p.from_rank, p.reason
      FROM upstream u
      JOIN pressed p ON p.job_id = u.cause
      JOIN jobs j ON j.id = u.job_id
     WHERE u.job_id <> u.cause
), held AS (
    INSERT INTO job_holds AS h (org_id, dag_name, job_name, cause, from_rank, reason)
    SELECT org_id, dag_name, job_name, cause, from_rank, reason FROM wanted
        ON CONFLICT (org_id, dag_name, job_name, cause) DO UPDATE
       SET from_rank = excluded.from_rank, reason = excluded.reason
     -- The reason is that of the moment when it began.
     WHERE h.from_rank <> excluded.from_rank
)
DELETE FROM job_holds h
 WHERE h.cause = ANY(:causes::text[])
   AND NOT EXISTS (SELECT FROM wanted w
                    WHERE w.org_id = h.org_id AND w.dag_name = h.dag_name
                      AND w.job_name = h.job_name AND w.cause = h.cause)
RETURNING h.org_id, h.dag_name, h.job_name;
