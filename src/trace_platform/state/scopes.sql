-- name: overlapping
-- What a generation reads of a range now: the current partitions of its inputs, and of the updates
-- that no partition stands for the last of each key. What was said to be invalid is no scope. What is
-- not routed yet is there all the same: whoever reads the range finds it.
WITH read AS MATERIALIZED (
    SELECT DISTINCT dataset_version, dataset_uuid FROM subscriptions
     WHERE generation_id = :generation_id
)
SELECT DISTINCT ON (r.dataset_version, e.partition_key)
       e.id AS event_id, r.dataset_uuid, r.dataset_version, e.partition_key,
       e.range_start AS start, e.range_end AS "end", e.rows, e.bytes
  FROM read r CROSS JOIN LATERAL (
       SELECT e.id, p.partition_key, p.range_start, p.range_end, p.row_count AS rows,
              p.byte_count AS bytes, 0 AS place
         FROM partition_versions p
         JOIN events e ON e.dataset_version = p.dataset_version
                      AND e.identity = 'partition:' || p.partition_key || '@' || p.id
        WHERE p.dataset_version = r.dataset_version AND p.superseded_at IS NULL
          AND p.range_start <= :end AND p.range_end >= :start
          -- Disjoint ranges: nothing before the last one that starts no later can reach ours.
          AND p.range_start >= coalesce((
              SELECT range_start FROM partition_versions
               WHERE dataset_version = r.dataset_version AND superseded_at IS NULL
                 AND range_start <= :start
               ORDER BY range_start DESC LIMIT 1), :start)
       UNION ALL
       SELECT e.id, e.partition_key, e.range_start, e.range_end, 0, 0, 1
         FROM events e
        WHERE e.dataset_version = r.dataset_version AND e.materialisation IS NULL
          AND e.partition_key IS NOT NULL
          AND e.range_start <= :end AND e.range_end >= :start
          AND e.invalidation_id IS NULL) e
 ORDER BY r.dataset_version, e.partition_key, e.place, e.id DESC;

-- name: of_partition
-- The same, of a partition that is no range. What the generation made of a tick under this name is made
-- of that tick once more.
WITH read AS MATERIALIZED (
    SELECT DISTINCT dataset_version, dataset_uuid FROM subscriptions
     WHERE generation_id = :generation_id
)
SELECT DISTINCT ON (r.dataset_version)
       e.id AS event_id, r.dataset_uuid, r.dataset_version, e.partition_key,
       e.range_start AS start, e.range_end AS "end", e.rows, e.bytes
  FROM read r CROSS JOIN LATERAL (
       SELECT e.id, p.partition_key, p.range_start, p.range_end, p.row_count AS rows,
              p.byte_count AS bytes, 0 AS place
         FROM partition_versions p
         JOIN events e ON e.dataset_version = p.dataset_version
                      AND e.identity = 'partition:' || p.partition_key || '@' || p.id
        WHERE p.dataset_version = r.dataset_version AND p.superseded_at IS NULL
          AND p.partition_key = :partition_key
       UNION ALL
       SELECT e.id, e.partition_key, e.range_start, e.range_end, 0, 0, 1
         FROM events e
        WHERE e.dataset_version = r.dataset_version AND e.materialisation IS NULL
          AND e.partition_key IS NOT NULL
          AND e.partition_key = :partition_key
          AND e.invalidation_id IS NULL
       UNION ALL
       SELECT e.id, NULL, NULL, NULL, 0, 0, 2
         FROM dataset_versions v
         JOIN partition_versions p ON p.dataset_version = v.version
                                  AND p.partition_key = :partition_key
                                  AND p.superseded_at IS NULL AND p.range_start IS NULL
        CROSS JOIN jsonb_array_elements(p.made_of) AS m
         JOIN events e ON e.dataset_version = r.dataset_version
                      AND e.identity = 'cursor:' || (m->>'tick')
        WHERE v.generation_id = :generation_id
          AND m->>'version' = r.dataset_version::text) e
 ORDER BY r.dataset_version, e.place, e.id DESC;

-- name: states
-- How far a generation is with each of these inputs. Of a task that is forgotten the memo says
-- whether it completed: what nobody knows of is due. What is not routed yet will have its task.
SELECT e.id AS event_id,
       CASE WHEN EXISTS (
                SELECT FROM data_invalidations d
                 WHERE d.processed_at IS NULL
                   AND d.dataset_version = ANY(ARRAY(
                       SELECT version FROM dataset_versions WHERE generation_id = :generation_id
                       UNION ALL SELECT e.dataset_version))
                   AND (d.range_start <= e.range_end AND d.range_end >= e.range_start
                        OR d.partition_key = e.partition_key)) THEN 'due'
            WHEN i.done THEN 'done'
            WHEN i.event_id IS NULL AND e.routed_at IS NULL THEN 'under_way'
            ELSE coalesce((
                SELECT CASE WHEN bool_or(t.status IN ('Failed', 'Canceled')
                                         AND t.next_retry_at IS NULL) THEN 'due'
                            WHEN bool_or(t.status <> 'Completed') THEN 'under_way'
                            WHEN bool_or(t.id = i.task_id) THEN 'done' END
                  FROM tasks t WHERE t.id = i.task_id OR t.part_of = i.task_id), 'due') END AS state
  FROM events e
  LEFT JOIN task_inputs i ON i.event_id = e.id AND i.generation_id = :generation_id
 WHERE e.id = ANY(:event_ids);

-- name: count_redo!
-- Whoever began before is older from here on than whoever begins after.
UPDATE generations SET redone = redone + 1 WHERE id = :generation_id;

-- name: let_hash!
-- The statement that makes tasks joins what it just made with itself, which no index helps.
SELECT set_config('enable_hashjoin', :allowed, true);

-- name: redo
-- Tasks that work through these inputs once more, announced like any others. A job that takes its
-- inputs together has one task for them. The memo points at them: they are what tells from now on
-- whether the generation is up to date. Of an input that is not routed yet it says nothing: the router
-- gives that a task of its own, which stays when these are canceled, and does it once more when they
-- fail.
WITH given AS MATERIALIZED (
    SELECT DISTINCT ON (e.id) e.id AS event_id, s.generation_id, j.id AS job_id, j.org_id,
           greatest(j.priority, :rank) AS priority, j.runtime, j.pressure_mode,
           e.dataset_version || ':' || e.identity || :suffix AS dedupe_key,
           j.execution_strategy IS NOT DISTINCT FROM 'Bulk' AS together, e.routed_at,
           jsonb_strip_nulls(jsonb_build_object(
               'input_index', s.input_index, 'dataset_uuid', e.dataset_uuid,
               'dataset_version', e.dataset_version, 'cursor', e.cursor,
               'partition_key', e.partition_key, 'start', e.range_start, 'end', e.range_end,
               'invalidation', :invalidation_id::uuid, 'replaces', true))
           || CASE WHEN s.filter IS NULL THEN '{}' ELSE jsonb_build_object('where', s.filter) END
               AS input
      FROM events e
      JOIN subscriptions s ON s.dataset_version = e.dataset_version
                          AND s.generation_id = :generation_id
      JOIN jobs j ON j.id = s.job_id
     WHERE e.id = ANY(:event_ids)
     ORDER BY e.id, s.input_index
), pieces AS MATERIALIZED (
    SELECT g.*, first_value(dedupe_key) OVER (PARTITION BY piece ORDER BY event_id) AS piece_key
      FROM (SELECT *, CASE WHEN together
                           THEN (row_number() OVER (ORDER BY event_id) - 1) / :max_inputs
                           ELSE event_id END AS piece FROM given) g
), made AS (
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       pending_backpressure, backfill_id)
    SELECT p.org_id, p.job_id, p.generation_id, p.piece_key, p.runtime, p.priority,
           jsonb_agg(p.input ORDER BY p.event_id),
           coalesce(p.pressure_mode = 'pause'
                    AND (SELECT from_rank FROM job_pressure WHERE job_id = p.job_id) <= p.priority,
                    false),
           :backfill_id
      FROM pieces p
     GROUP BY p.piece, p.org_id, p.job_id, p.generation_id, p.piece_key, p.runtime, p.priority,
              p.pressure_mode
     ORDER BY min(p.event_id)
        ON CONFLICT (generation_id, dedupe_key) DO NOTHING
    RETURNING id, job_id, generation_id, dedupe_key, runtime, pending_backpressure
), ready AS (
    SELECT m.id, m.runtime, j.max_concurrency, row_number() OVER (ORDER BY m.id) AS n
      FROM made m JOIN jobs j ON j.id = m.job_id WHERE NOT m.pending_backpressure
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id ORDER BY id))
      FROM (SELECT id, runtime, (row_number() OVER (PARTITION BY runtime ORDER BY id) - 1) / 500
                   AS chunk
              FROM ready WHERE max_concurrency IS NULL OR n <= max_concurrency) c
     GROUP BY runtime, chunk
), memo AS (
    INSERT INTO task_inputs (event_id, generation_id, task_id)
    SELECT p.event_id, p.generation_id, m.id
      FROM pieces p JOIN made m ON m.dedupe_key = p.piece_key
     WHERE p.routed_at IS NOT NULL
     ORDER BY p.event_id
        ON CONFLICT (event_id, generation_id) DO UPDATE
       SET task_id = excluded.task_id, done = false
), marked AS (
    UPDATE events SET redo = true
     WHERE id IN (SELECT event_id FROM pieces WHERE routed_at IS NULL)
)
SELECT id FROM made ORDER BY id;

-- name: generation_of$
SELECT generation_id FROM dataset_versions WHERE version = :dataset_version;
