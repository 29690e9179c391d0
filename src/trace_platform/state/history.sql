-- name: forget_tasks!
-- An id begins with the time it was made, so the oldest are one end of the primary key.
WITH old AS MATERIALIZED (
    SELECT id FROM tasks
     WHERE id < (SELECT uuid7_at(clock_timestamp() - make_interval(secs => :keep_days * 86400)))
       AND (status IN ('Completed', 'Canceled') OR status = 'Failed' AND next_retry_at IS NULL)
       AND completed_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
     ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
), attempts AS (
    DELETE FROM task_attempts a USING old WHERE a.task_id = old.id
)
DELETE FROM tasks t USING old WHERE t.id = old.id;

-- name: forget_events!
-- The event of a partition that is current stays: it says that the partition was announced.
WITH old AS MATERIALIZED (
    SELECT e.id FROM events e
     WHERE e.recorded_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
       AND e.routed_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM partition_versions p
                        WHERE p.dataset_version = e.dataset_version AND p.superseded_at IS NULL
                          AND e.identity = 'partition:' || p.partition_key || '@' || p.id)
     ORDER BY e.id LIMIT :limit FOR UPDATE SKIP LOCKED
)
DELETE FROM events e USING old WHERE e.id = old.id;

-- name: forget_buffers!
DELETE FROM buffer_publishes
 WHERE id IN (SELECT id FROM buffer_publishes
               WHERE published_at < (SELECT clock_timestamp()
                                            - make_interval(secs => :keep_days * 86400))
               ORDER BY id LIMIT :limit);

-- name: forget_correlations!
DELETE FROM correlations c USING (
    SELECT job_id, key FROM correlations
     WHERE closed_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
     LIMIT :limit) old
 WHERE c.job_id = old.job_id AND c.key = old.key;

-- name: forget_workers!
-- A worker has a new name with every start.
DELETE FROM workers WHERE seen_at < clock_timestamp() - interval '1 day';
