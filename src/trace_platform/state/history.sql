-- name: forget_tasks!
-- An id begins with the time it was made, so the oldest are one end of the primary key. What a
-- generation was given with a task that completed is noted as done. What failed, or was canceled, is
-- not forgotten while an event that counts is with it, and the run of a source not at all.
WITH old AS MATERIALIZED (
    SELECT id, status FROM tasks t
     WHERE id < (SELECT uuid7_at(clock_timestamp() - make_interval(secs => :keep_days * 86400)))
       AND (status IN ('Completed', 'Canceled') OR status = 'Failed' AND next_retry_at IS NULL)
       AND completed_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
       AND NOT EXISTS (SELECT FROM invalidation_tasks r
                        WHERE r.task_id = t.id AND r.processed_at IS NULL)
       AND ((SELECT g.purged_at IS NOT NULL FROM generations g
              WHERE g.id = t.generation_id) IS NOT FALSE
            OR status = 'Completed' AND dedupe_key <> 'run'
               AND NOT EXISTS (SELECT FROM tasks p WHERE p.part_of = t.id AND p.status <> 'Completed')
            -- What gave way comes back with its generation, and what failed of one that was never
            -- built is what is missing of it.
            OR status <> 'Completed' AND dedupe_key <> 'run' AND part_of IS NULL AND NOT superseded
               AND (SELECT g.built_at IS NOT NULL FROM generations g WHERE g.id = t.generation_id)
               AND (coalesce(error_code = 'dropped_by_backpressure', false)
                    OR NOT EXISTS (SELECT FROM task_inputs i WHERE i.task_id = t.id)))
     ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED
), summary AS (
    UPDATE task_inputs i SET done = true FROM old
     WHERE i.task_id = old.id AND old.status = 'Completed'
), attempts AS (
    DELETE FROM task_attempts a USING old WHERE a.task_id = old.id
), noted AS (
    UPDATE garbage_walk
       SET forgotten_to = greatest(forgotten_to, (SELECT id FROM old ORDER BY id DESC LIMIT 1))
     WHERE EXISTS (SELECT FROM old)
)
DELETE FROM tasks t USING old WHERE t.id = old.id;

-- name: forget_events!
-- The event of a partition that is current stays: it says that the partition was announced. So does
-- the range that a source emitted, which nothing else stands for: a rebuild starts from it; and the
-- newest cursor. What was said to be invalid stays until every generation that read it before, and
-- can become current again, was given it.
WITH old AS MATERIALIZED (
    SELECT e.id FROM events e
     WHERE e.recorded_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
       AND e.routed_at IS NOT NULL
       AND (e.materialisation IS NOT NULL OR e.partition_key IS NULL OR e.invalidation_id IS NOT NULL)
       AND NOT EXISTS (SELECT FROM partition_versions p
                        WHERE p.id = e.materialisation AND p.superseded_at IS NULL)
       AND (e.cursor IS NULL OR EXISTS (
            SELECT FROM events n WHERE n.dataset_version = e.dataset_version
               AND n.materialisation IS NULL AND n.partition_key IS NULL AND n.id > e.id))
       AND (e.invalidation_id IS NULL OR NOT EXISTS (
            SELECT FROM generation_inputs r JOIN generations g ON g.id = r.generation_id
             WHERE r.dataset_version = e.dataset_version AND r.position < e.position
               AND g.purged_at IS NULL
               AND NOT EXISTS (SELECT FROM task_inputs i
                                WHERE i.event_id = e.id AND i.generation_id = r.generation_id)))
     ORDER BY e.id LIMIT :limit FOR UPDATE SKIP LOCKED
), inputs AS (
    DELETE FROM task_inputs i USING old WHERE i.event_id = old.id
)
DELETE FROM events e USING old WHERE e.id = old.id;

-- name: forget_buffers!
-- A batch that no sink has taken is all that there is of its rows: it stays, and so does its record.
DELETE FROM buffer_publishes
 WHERE id IN (SELECT id FROM buffer_publishes
               WHERE taken_at < (SELECT clock_timestamp()
                                        - make_interval(secs => :keep_days * 86400))
               ORDER BY taken_at LIMIT :limit);

-- name: forget_correlations!
DELETE FROM correlations c USING (
    SELECT generation_id, key FROM correlations
     WHERE closed_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
     LIMIT :limit) old
 WHERE c.generation_id = old.generation_id AND c.key = old.key;

-- name: forget_invalidations!
WITH old AS MATERIALIZED (
    SELECT id FROM data_invalidations
     WHERE created_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
       AND processed_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
     ORDER BY org_id, created_at LIMIT :limit FOR UPDATE SKIP LOCKED
), links AS (
    DELETE FROM invalidation_tasks
     WHERE invalidation_id = ANY(ARRAY(SELECT id FROM old)) RETURNING task_id
)
DELETE FROM data_invalidations WHERE id = ANY(ARRAY(SELECT id FROM old));

-- name: forget_backfills!
DELETE FROM backfills
 WHERE id = ANY(ARRAY(
       SELECT id FROM backfills
        WHERE ended_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
        ORDER BY id LIMIT :limit));

-- name: forget_workers!
-- A worker has a new name with every start.
DELETE FROM workers WHERE seen_at < clock_timestamp() - interval '1 day';

-- name: forget_queries$
-- Rows that never change are named by their place: no join that could be made the wrong way round.
WITH old AS (
    DELETE FROM queries
     WHERE ctid = ANY(ARRAY(
           SELECT ctid FROM queries
            WHERE recorded_at < (SELECT clock_timestamp()
                                        - make_interval(secs => :keep_days * 86400))
            ORDER BY recorded_at LIMIT :limit))
    RETURNING org_id, query_id, started_at, datasets
), links AS (
    DELETE FROM query_reads
     WHERE ctid = ANY(ARRAY(
           SELECT r.place
             FROM old
            CROSS JOIN LATERAL jsonb_array_elements(old.datasets) d
            CROSS JOIN LATERAL (
                  SELECT ctid AS place FROM query_reads
                   WHERE org_id = old.org_id AND dataset = d->>'name'
                     AND started_at = old.started_at AND query_id = old.query_id OFFSET 0) r))
)
SELECT count(*) FROM old;

-- name: forget_pii_access$
SELECT forget_pii_access(:keep_days::float8, :limit::integer);

-- name: forget_partitions!
-- Rows of files that are deleted. What they said, which moments cannot be read any more, is said by one
-- moment for all from then on.
WITH old AS MATERIALIZED (
    SELECT id FROM partition_versions
     WHERE files_deleted_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
     ORDER BY files_deleted_at LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM partition_versions p USING old WHERE p.id = old.id
    RETURNING p.dataset_version, p.superseded_at
)
UPDATE dataset_versions v SET past_from = greatest(v.past_from, g.superseded_at)
  FROM (SELECT dataset_version, max(superseded_at) AS superseded_at FROM gone
         GROUP BY dataset_version) g
 WHERE v.version = g.dataset_version;

-- name: forget_checks!
-- The newest result of each check stays: it says how it is.
DELETE FROM check_results
 WHERE id IN (SELECT id FROM check_results r
               WHERE checked_at < (SELECT clock_timestamp()
                                          - make_interval(secs => :keep_days * 86400))
                 AND EXISTS (SELECT FROM check_results n
                              WHERE n.dataset_uuid = r.dataset_uuid AND n.name = r.name
                                AND n.id > r.id)
               ORDER BY checked_at LIMIT :limit);
