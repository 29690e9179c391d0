-- name: record$
-- Recorded once per id.
WITH made AS (
    INSERT INTO data_invalidations (id, org_id, dataset_uuid, dataset_version, scope, partition_key,
                                    range_start, range_end, remade, reason, cause_task_id,
                                    cause_attempt)
    SELECT id, org_id, dataset_uuid, dataset_version, scope, partition_key, "start", "end", remade,
           reason, task_id, attempt
      FROM jsonb_to_recordset(:rows) AS (
           id uuid, org_id uuid, dataset_uuid uuid, dataset_version uuid, scope text,
           partition_key text, "start" bigint, "end" bigint, remade boolean, reason text,
           task_id uuid, attempt integer)
     ORDER BY id
        ON CONFLICT (id) DO NOTHING
    RETURNING id
)
SELECT count(*) FROM made;

-- name: get^
SELECT id, org_id, dataset_uuid, dataset_version, partition_key, range_start, range_end, remade, reason,
       note
  FROM data_invalidations WHERE id = :id;

-- name: due
-- All that is not routed of some datasets, the oldest first. What a producer has to make anew while
-- it is being rebuilt waits for the end of that, and of a DAG that was removed until it is deployed
-- again. What follows from a task that is less urgent than
-- its job is no more urgent than it.
WITH chosen AS MATERIALIZED (
    SELECT DISTINCT d.dataset_version FROM data_invalidations d
     WHERE d.routed_at IS NULL
       AND (d.remade OR NOT EXISTS (
            SELECT FROM dataset_versions v JOIN rebuilds r ON r.generation_id = v.generation_id
             WHERE v.version = d.dataset_version)
            AND EXISTS (
            SELECT FROM datasets s
              JOIN active_dags a ON a.org_id = s.org_id AND a.dag_name = s.dag_name
             WHERE s.uuid = d.dataset_uuid))
     LIMIT :datasets
)
SELECT d.id, d.org_id, d.dataset_uuid, d.dataset_version, d.partition_key, d.range_start,
       d.range_end, d.remade,
       (SELECT v.generation_id FROM dataset_versions v WHERE v.version = d.dataset_version)
           AS generation_id,
       (SELECT CASE WHEN t.priority > j.priority THEN t.priority END
          FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE t.id = d.cause_task_id) AS priority
  FROM data_invalidations d
 WHERE d.dataset_version = ANY(ARRAY(SELECT dataset_version FROM chosen)) AND d.routed_at IS NULL
   AND (d.remade OR NOT EXISTS (
        SELECT FROM dataset_versions v JOIN rebuilds r ON r.generation_id = v.generation_id
         WHERE v.version = d.dataset_version)
        AND EXISTS (
        SELECT FROM datasets s JOIN active_dags a ON a.org_id = s.org_id AND a.dag_name = s.dag_name
         WHERE s.uuid = d.dataset_uuid))
 ORDER BY d.created_at, d.id;

-- name: follow!
-- What waits to be made anew is a matter of the generation that is current now.
UPDATE data_invalidations d SET dataset_version = m.version
  FROM unnest(:uuids::uuid[], :versions::uuid[]) AS m (uuid, version)
 WHERE d.dataset_version = ANY(ARRAY(
           SELECT v.version FROM dataset_versions v WHERE v.dataset_uuid = ANY(:uuids)))
   AND d.dataset_uuid = m.uuid AND d.routed_at IS NULL AND NOT d.remade
   AND d.dataset_version <> m.version;

-- name: merge!
-- The lead's range is that of all; the others point at it.
UPDATE data_invalidations d
   SET routed_at = clock_timestamp(), merged_into = nullif(g.lead, d.id),
       scope = CASE WHEN d.id = g.lead AND (g.first, g.last) <> (d.range_start, d.range_end)
                    THEN 'row_range' ELSE d.scope END,
       partition_key = CASE WHEN d.id = g.lead AND (g.first, g.last) <> (d.range_start, d.range_end)
                            THEN g.first || '-' || g.last ELSE d.partition_key END,
       range_start = CASE WHEN d.id = g.lead THEN g.first ELSE d.range_start END,
       range_end = CASE WHEN d.id = g.lead THEN g.last ELSE d.range_end END
  FROM unnest(:ids::uuid[], :leads::uuid[], :firsts::bigint[], :lasts::bigint[])
       AS g (id, lead, first, last)
 WHERE d.id = g.id;

-- name: readers
-- Who is given what happens to a dataset, now or when a rebuild has ended.
SELECT DISTINCT s.generation_id, j.dag_name || '.' || j.name AS name, s.held
  FROM subscriptions s JOIN jobs j ON j.id = s.job_id
 WHERE s.dataset_version = :dataset_version
 ORDER BY 2;

-- name: waiting_tasks
-- Of a generation, the tasks that earlier invalidations of the same dataset made and that have not
-- started: whatever such a task covers it will read as it is then. Locked, so that none starts before
-- this is written; one that starts right now is passed over.
SELECT t.id, t.generation_id, t.inputs FROM tasks t
 WHERE t.id = ANY(ARRAY(
       SELECT r.task_id FROM data_invalidations d
         JOIN invalidation_tasks r ON r.invalidation_id = d.id AND r.processed_at IS NULL
        WHERE d.dataset_version = :dataset_version AND d.processed_at IS NULL))
   AND t.generation_id = ANY(:generation_ids) AND t.status = 'Queued' AND t.attempt = 0
 ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED;

-- name: link!
INSERT INTO invalidation_tasks (invalidation_id, task_id)
SELECT :id, task_id FROM unnest(:task_ids::uuid[]) AS task_id
    ON CONFLICT DO NOTHING;

-- name: give!
-- To this generation the event was given with a task that waits already: routing passes it over, and
-- the task has to read what changed with it.
WITH given AS (
    INSERT INTO task_inputs (event_id, generation_id, task_id)
    SELECT e.id, :generation_id, :task_id FROM events e
     WHERE e.dataset_version = :dataset_version AND e.identity = 'invalidation:' || :id::uuid
        ON CONFLICT DO NOTHING
    RETURNING event_id
)
UPDATE tasks t
   SET inputs = (SELECT jsonb_agg(CASE WHEN i.given->>'dataset_version' = e.dataset_version::text
                                       THEN i.given || jsonb_build_object('changed_at', e.position)
                                       ELSE i.given END ORDER BY i.n)
                   FROM jsonb_array_elements(t.inputs) WITH ORDINALITY AS i (given, n))
  FROM given g JOIN events e ON e.id = g.event_id
 WHERE t.id = :task_id;

-- name: process_now!
-- Nobody has anything to do for it, or for those that it stands for.
UPDATE data_invalidations SET processed_at = clock_timestamp(), note = :note
 WHERE dataset_version = :dataset_version AND processed_at IS NULL
   AND (id = :id OR merged_into = :id);

-- name: hold_of_tasks
-- Of two tasks that end at once, one waits and then sees that the other has.
SELECT id FROM data_invalidations
 WHERE id = ANY(ARRAY(SELECT invalidation_id FROM invalidation_tasks
                       WHERE task_id = ANY(:task_ids) AND processed_at IS NULL))
 ORDER BY id FOR NO KEY UPDATE;

-- name: close_tasks!
UPDATE invalidation_tasks SET processed_at = clock_timestamp()
 WHERE task_id = ANY(:task_ids) AND processed_at IS NULL;

-- name: process
-- Those of which no task is open, and whose event all that it concerns were given; with those that
-- were merged into them. A generation that began to read later never hears of it.
WITH done AS MATERIALIZED (
    SELECT d.id, d.dataset_version FROM data_invalidations d
     WHERE d.id = ANY(:ids) AND d.processed_at IS NULL AND d.routed_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM invalidation_tasks t
                        WHERE t.invalidation_id = d.id AND t.processed_at IS NULL)
       AND NOT EXISTS (
           SELECT FROM events e
             JOIN subscriptions s ON s.dataset_version = e.dataset_version
             JOIN generation_inputs g ON g.generation_id = s.generation_id
                                     AND g.dataset_version = s.dataset_version
            WHERE e.dataset_version = d.dataset_version AND e.identity = 'invalidation:' || d.id
              AND g.position < e.position
              AND NOT EXISTS (SELECT FROM task_inputs i
                               WHERE i.event_id = e.id AND i.generation_id = s.generation_id))
)
UPDATE data_invalidations SET processed_at = clock_timestamp()
 WHERE id = ANY(ARRAY(
       SELECT id FROM done
       UNION ALL
       SELECT m.id FROM done JOIN data_invalidations m
           ON m.dataset_version = done.dataset_version AND m.processed_at IS NULL
          AND m.merged_into = done.id))
RETURNING id;

-- name: abandoned
-- Tasks that will not close what they stand for any more, because their generation gave way to one
-- that was built later; and those that completed where nobody looked. A task is not forgotten while
-- something waits for it.
SELECT DISTINCT r.task_id FROM invalidation_tasks r JOIN tasks t ON t.id = r.task_id
 WHERE r.processed_at IS NULL
   AND (t.status = 'Completed'
        OR NOT EXISTS (SELECT FROM subscriptions s WHERE s.generation_id = t.generation_id))
 LIMIT :limit;

-- name: open_leads
SELECT id FROM data_invalidations
 WHERE processed_at IS NULL AND routed_at IS NOT NULL AND merged_into IS NULL
   AND NOT EXISTS (SELECT FROM invalidation_tasks t
                    WHERE t.invalidation_id = data_invalidations.id AND t.processed_at IS NULL)
 ORDER BY id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED;

-- name: listing
SELECT d.id AS invalidation_id, d.dataset_uuid, d.dataset_version,
       coalesce(s.name, s.dag_name || '.' || s.job_name || '.' || s.output_index) AS dataset,
       d.scope, d.partition_key, d.range_start AS start, d.range_end AS "end", d.remade, d.reason,
       d.cause_task_id, d.created_at, d.routed_at, d.processed_at, d.merged_into, d.note,
       count(t.task_id) AS tasks, count(t.processed_at) AS tasks_done,
       (SELECT f.id FROM tasks f
         WHERE f.id = ANY(array_agg(t.task_id) FILTER (WHERE t.processed_at IS NULL))
           AND (f.status = 'Canceled' OR f.status = 'Failed' AND f.next_retry_at IS NULL)
         ORDER BY f.id LIMIT 1) AS failed_task_id
  FROM (SELECT * FROM data_invalidations
         WHERE org_id = :org_id AND (:dataset_uuid::uuid IS NULL OR dataset_uuid = :dataset_uuid)
           AND (NOT :open OR processed_at IS NULL)
         ORDER BY created_at DESC LIMIT :limit) d
  JOIN datasets s ON s.uuid = d.dataset_uuid
  LEFT JOIN invalidation_tasks t ON t.invalidation_id = coalesce(d.merged_into, d.id)
 GROUP BY d.id, d.dataset_uuid, d.dataset_version, d.scope, d.partition_key, d.range_start,
          d.range_end, d.remade, d.reason, d.cause_task_id, d.created_at, d.routed_at,
          d.processed_at, d.merged_into, d.note, s.name, s.dag_name, s.job_name, s.output_index
 ORDER BY d.created_at DESC, d.id;
