-- What lies in the object store, and whether anybody still needs it.

-- name: close_late!
-- A task that failed for good because its worker went silent would take its late answer for ever. Once
-- the attempt is certainly over it does not any more: what it staged goes.
UPDATE tasks SET reaped_at = NULL
 WHERE id = ANY(ARRAY(
       SELECT t.id FROM leftovers l
         JOIN tasks t ON t.id = l.task_id AND t.attempt = l.attempt
         JOIN jobs j ON j.id = t.job_id
        WHERE l.ended_at < (SELECT clock_timestamp() - make_interval(secs => :grace_s))
          AND t.status = 'Failed' AND t.reaped_at IS NOT NULL AND t.next_retry_at IS NULL
          AND t.started_at < clock_timestamp() - make_interval(secs => j.timeout_seconds + :grace_s)
        ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED));

-- name: due_leftovers
-- Attempts that ended without success long enough ago, and whose fence is lost: it never holds again,
-- so nothing of theirs is ever committed. They are the caller's for a while.
UPDATE leftovers o SET taken_until = clock_timestamp() + make_interval(secs => :lease_s)
  FROM (SELECT l.task_id, l.attempt FROM leftovers l LEFT JOIN tasks t ON t.id = l.task_id
         WHERE l.ended_at < (SELECT clock_timestamp() - make_interval(secs => :grace_s))
           AND l.taken_until <= clock_timestamp()
           AND (t.id IS NULL OR t.attempt > l.attempt
                OR t.status <> 'Running' AND t.reaped_at IS NULL)
         ORDER BY l.ended_at LIMIT :limit FOR UPDATE OF l SKIP LOCKED) due
 WHERE o.task_id = due.task_id AND o.attempt = due.attempt
RETURNING o.task_id, o.attempt;

-- name: forget_leftovers!
DELETE FROM leftovers l USING unnest(:task_ids::uuid[], :attempts::integer[]) AS g (task_id, attempt)
 WHERE l.task_id = g.task_id AND l.attempt = g.attempt;

-- name: outputs_of
-- Where these tasks write: the outputs of their generation, and what their last claim pinned.
SELECT t.id AS task_id, t.org_id, v.dataset_uuid, v.version AS dataset_version
  FROM tasks t JOIN dataset_versions v ON v.generation_id = t.generation_id
 WHERE t.id = ANY(:task_ids)
UNION
SELECT t.id, t.org_id, (o->>'dataset_uuid')::uuid, (o->>'dataset_version')::uuid
  FROM tasks t CROSS JOIN LATERAL jsonb_array_elements(t.outputs) o
 WHERE t.id = ANY(:task_ids);

-- name: judge_attempts
-- Whether each of these attempts is over for good. One that is not on record though its task is
-- belongs to nobody we know: it counts as not over. So does a task that is not on record though none
-- so new was ever forgotten.
SELECT g.task_id, g.attempt, t.id IS NULL AS forgotten,
       CASE WHEN t.id IS NULL
            THEN coalesce(g.task_id <= (SELECT forgotten_to FROM garbage_walk), false)
                 AND g.task_id < uuid7_at(m.before)
            WHEN t.attempt = g.attempt AND (t.status = 'Running' OR t.reaped_at IS NOT NULL) THEN false
            ELSE coalesce(a.ended_at < m.before, false) END AS over
  FROM (SELECT clock_timestamp() - make_interval(secs => :grace_s) AS before) m
 CROSS JOIN unnest(:task_ids::uuid[], :attempts::integer[]) AS g (task_id, attempt)
  LEFT JOIN tasks t ON t.id = g.task_id
  LEFT JOIN task_attempts a ON a.task_id = g.task_id AND a.attempt = g.attempt;

-- name: pointed_at
-- Everything that was ever committed there, current or not. Settled: its attempt has ended long ago.
SELECT location, files, committed_at < clock_timestamp() - make_interval(secs => :grace_s) AS settled
  FROM partition_versions WHERE location = ANY(:locations);

-- name: published
SELECT DISTINCT dataset_uuid, task_id, attempt FROM buffer_publishes WHERE task_id = ANY(:task_ids);

-- name: known_generations
SELECT version, dataset_uuid FROM dataset_versions WHERE version = ANY(:versions);

-- name: known_datasets
SELECT uuid FROM datasets WHERE uuid = ANY(:uuids);

-- name: before$
-- By the database's clock.
SELECT clock_timestamp() - make_interval(secs => :grace_s);

-- name: take_walk^
-- The next piece of the walk is ours, unless somebody took one less than a round ago.
UPDATE garbage_walk SET taken_until = clock_timestamp() + make_interval(secs => :every_s)
 WHERE taken_until <= clock_timestamp() RETURNING position;

-- name: walked_to!
UPDATE garbage_walk SET position = :position;
