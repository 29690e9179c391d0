-- How far generations are behind what their inputs hold now. Reads what is current and what is
-- alive: neither finished tasks, nor partitions that gave way, nor events of them.

-- name: of_generations
-- Of each generation: the events that its inputs hold now, which of them it was not given and why
-- not, which are in a task that has not ended or ended badly, and since when the oldest of those is
-- there. Whether an event was given is a lookup of its own for each, never a join with all that was.
WITH subscribed AS MATERIALIZED (
    SELECT s.generation_id, s.dataset_version, g.position, bool_and(s.held) AS held,
           bool_or(j.execution_strategy IS DISTINCT FROM 'PerPartition') AS takes_cursors
      FROM subscriptions s
      JOIN jobs j ON j.id = s.job_id
      JOIN generation_inputs g ON g.generation_id = s.generation_id
                              AND g.dataset_version = s.dataset_version
     WHERE s.generation_id = ANY(:generation_ids)
     GROUP BY s.generation_id, s.dataset_version, g.position
), alive AS MATERIALIZED (
    -- As text: the index by generation has all that ever ended, and is no way to find what lives.
    -- A part counts as the task that was given the event.
    SELECT coalesce(part_of, id) AS id, generation_id, status, pending_backpressure FROM live_tasks
     WHERE generation_id::text = ANY(:generation_ids::text[])
), bad AS MATERIALIZED (
    -- What backpressure dropped was not wanted any more.
    SELECT coalesce(part_of, id) AS id, id AS task_id FROM tasks
     WHERE status IN ('Failed', 'Canceled') AND next_retry_at IS NULL AND NOT superseded
       AND generation_id = ANY(:generation_ids)
       AND error_code IS DISTINCT FROM 'dropped_by_backpressure'
), owed AS MATERIALIZED (
    SELECT DISTINCT (o.payload->>'generation_id')::uuid AS generation_id, e.id::bigint AS event_id
      FROM outbox o
     CROSS JOIN LATERAL jsonb_array_elements_text(o.payload->'event_ids') e (id)
     WHERE o.kind = 'route' AND o.payload->>'generation_id' = ANY(:generation_ids::text[])
), counted AS MATERIALIZED (
    -- Membership as an expression is a hash that is asked; as a join it could be read for every row.
    SELECT s.generation_id, c.*
      FROM subscribed s CROSS JOIN LATERAL (
        SELECT count(*) AS current,
               count(*) FILTER (WHERE NOT given) AS not_given,
               count(*) FILTER (WHERE NOT given AND s.held) AS held,
               count(*) FILTER (WHERE NOT given AND NOT s.held AND NOT routed) AS not_routed,
               count(*) FILTER (WHERE NOT given AND NOT s.held AND routed AND owed) AS owed,
               count(*) FILTER (WHERE NOT given AND NOT s.held AND routed AND NOT owed) AS lost,
               min(id) FILTER (WHERE NOT given) AS first_not_given,
               array_agg(task_id) FILTER (WHERE bad) AS bad_ids,
               min(recorded_at) FILTER (WHERE NOT given OR alive OR bad) AS oldest
          FROM (SELECT e.id, e.recorded_at, e.routed_at IS NOT NULL AS routed, i.task_id,
                       i.event_id IS NOT NULL AS given, i.task_id IN (SELECT id FROM alive) AS alive,
                       i.task_id IN (SELECT id FROM bad) AS bad,
                       (s.generation_id, e.id) IN (SELECT generation_id, event_id FROM owed) AS owed
                  FROM current_events(s.dataset_version, :newest_cursors) e
                  LEFT JOIN LATERAL (
                       SELECT event_id, task_id FROM task_inputs
                        WHERE event_id = e.id AND generation_id = s.generation_id OFFSET 0) i ON true
                 WHERE (s.takes_cursors OR e.partition_key IS NOT NULL)
                   AND (e.invalidation_id IS NULL OR e.position > s.position)) judged) c
), inputs AS MATERIALIZED (
    SELECT generation_id, sum(current)::bigint AS current, sum(not_given)::bigint AS not_given,
           sum(held)::bigint AS held, sum(not_routed)::bigint AS not_routed,
           sum(owed)::bigint AS owed, sum(lost)::bigint AS lost,
           min(first_not_given) AS first_not_given, min(oldest) AS oldest
      FROM counted GROUP BY generation_id
), failed AS MATERIALIZED (
    SELECT generation_id, count(*) AS failed,
           (array_agg(task_id ORDER BY task_id))[1:3] AS failed_task_ids
      FROM (SELECT DISTINCT c.generation_id, b.task_id
              FROM counted c CROSS JOIN LATERAL unnest(c.bad_ids) given (id)
              JOIN bad b ON b.id = given.id) t
     GROUP BY generation_id
), work AS MATERIALIZED (
    SELECT generation_id, count(*) AS unfinished,
           count(*) FILTER (WHERE status = 'Running') AS running,
           count(*) FILTER (WHERE status = 'Queued' AND NOT pending_backpressure) AS ready,
           count(*) FILTER (WHERE status = 'Queued' AND pending_backpressure) AS deferred,
           count(*) FILTER (WHERE status = 'Failed') AS retrying
      FROM alive GROUP BY generation_id
)
SELECT g.id AS generation_id, coalesce(i.current, 0) AS current,
       coalesce(i.not_given, 0) AS not_given, coalesce(i.held, 0) AS held,
       coalesce(i.not_routed, 0) AS not_routed, coalesce(i.owed, 0) AS owed,
       coalesce(i.lost, 0) AS lost, i.first_not_given,
       coalesce(w.unfinished, 0) AS unfinished, coalesce(w.running, 0) AS running,
       coalesce(w.ready, 0) AS ready, coalesce(w.deferred, 0) AS deferred,
       coalesce(w.retrying, 0) AS retrying,
       coalesce(f.failed, 0) AS failed, coalesce(f.failed_task_ids, '{}') AS failed_task_ids,
       i.oldest
  FROM unnest(:generation_ids::uuid[]) AS g (id)
  LEFT JOIN inputs i ON i.generation_id = g.id
  LEFT JOIN failed f ON f.generation_id = g.id
  LEFT JOIN work w ON w.generation_id = g.id;

-- name: fed
-- The generations that are routed to now. What waits for a rebuild is owed when that ends.
SELECT generation_id FROM subscriptions
 GROUP BY generation_id HAVING NOT bool_or(held) ORDER BY generation_id;

-- name: tasks
-- How these ended.
SELECT t.id AS task_id, t.status, t.error_code, t.error_message, t.inputs->0 AS input,
       extract(epoch FROM clock_timestamp() - t.completed_at)::float8 AS age_s
  FROM tasks t WHERE t.id = ANY(:task_ids) ORDER BY t.id;

-- name: open_invalidations
-- Of each of these generations of datasets: what was said to be invalid and is not mended yet.
SELECT dataset_version, count(*) AS invalidations, min(created_at) AS oldest,
       (array_agg(reason ORDER BY id))[1] AS reason
  FROM data_invalidations
 WHERE processed_at IS NULL AND dataset_version = ANY(:dataset_versions)
 GROUP BY dataset_version;
