-- name: record_events$
-- Recorded once per identity; what is new is owed to the router, in chunks that route quickly. Each
-- takes the next position of its generation, whose lock is kept until this is committed. An identity
-- that was there before leaves a position that nobody has. What is done again is said again, once by
-- each task, though no partition stands for it. So is a range that was said before, by a job that was
-- woken by another version of an input meanwhile: who reads on may have read that one in the range.
WITH said AS MATERIALIZED (
    SELECT e.*, e.task_id IS NOT NULL AND e.partition_key IS NOT NULL
                AND coalesce(e.materialisation, e.repeat, e.invalidation) IS NULL AS announced
      FROM ROWS FROM (jsonb_to_recordset(:events) AS (
           org_id uuid, dataset_uuid uuid, dataset_version uuid, cursor bigint,
           partition_key text, "start" bigint, "end" bigint, materialisation uuid,
           task_id uuid, attempt integer, priority smallint, invalidation uuid, repeat uuid,
           replaces boolean))
           WITH ORDINALITY AS e (
           org_id, dataset_uuid, dataset_version, cursor, partition_key, "start", "end",
           materialisation, task_id, attempt, priority, invalidation, repeat, replaces, n)
), rewoken AS MATERIALIZED (
    SELECT v.version FROM dataset_versions v
     WHERE v.version IN (SELECT dataset_version FROM said WHERE announced)
       AND EXISTS (SELECT FROM generation_inputs g
                    WHERE g.generation_id = v.generation_id
                      AND NOT EXISTS (SELECT FROM subscriptions s
                                       WHERE s.generation_id = g.generation_id
                                         AND s.dataset_version = g.dataset_version))
), again AS MATERIALIZED (
    -- Short ranges and long ones by their own indexes.
    SELECT a.n FROM said a
     WHERE a.announced AND a.dataset_version IN (SELECT version FROM rewoken)
       AND (EXISTS (SELECT FROM events b
                     WHERE b.dataset_version = a.dataset_version AND b.range_start <= a."end"
                       AND b.range_end BETWEEN a."start" AND a."end" + 10000
                       AND b.range_end - b.range_start < 10000
                       AND b.producer_task_id IS DISTINCT FROM a.task_id)
            OR EXISTS (SELECT FROM events b
                        WHERE b.dataset_version = a.dataset_version AND b.range_start <= a."end"
                          AND b.range_end >= a."start" AND b.range_end - b.range_start >= 10000
                          AND b.producer_task_id IS DISTINCT FROM a.task_id)
            OR EXISTS (SELECT FROM events b
                        WHERE b.dataset_version = a.dataset_version AND b.materialisation IS NULL
                          AND b.partition_key = a.partition_key
                          AND b.producer_task_id IS DISTINCT FROM a.task_id))
), given AS MATERIALIZED (
    SELECT DISTINCT ON (dataset_version, identity) *
      FROM (SELECT e.*, CASE
                     WHEN e.invalidation IS NOT NULL THEN 'invalidation:' || e.invalidation
                     WHEN e.cursor IS NOT NULL THEN 'cursor:' || e.cursor
                     WHEN coalesce(e.materialisation, e.repeats) IS NOT NULL
                         THEN 'partition:' || e.partition_key || '@'
                              || coalesce(e.materialisation, e.repeats)
                     ELSE 'partition:' || e.partition_key END AS identity
              FROM (SELECT *, CASE WHEN n IN (SELECT n FROM again) THEN task_id
                                   ELSE repeat END AS repeats FROM said) e) named
     ORDER BY dataset_version, identity, n
), locked AS MATERIALIZED (
    SELECT version, position FROM dataset_versions
     WHERE version IN (SELECT dataset_version FROM given) ORDER BY version FOR NO KEY UPDATE
), recorded AS (
    INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, cursor, partition_key,
                        range_start, range_end, producer_task_id, producer_attempt, priority,
                        materialisation, invalidation_id, replaces, position)
    SELECT g.org_id, g.dataset_uuid, g.dataset_version, g.identity, g.cursor, g.partition_key,
           g."start", g."end", g.task_id, g.attempt, g.priority, g.materialisation, g.invalidation,
           coalesce(g.replaces, g.invalidation IS NOT NULL OR g.repeats IS NOT NULL),
           l.position + row_number() OVER (PARTITION BY g.dataset_version ORDER BY g.n)
      FROM given g JOIN locked l ON l.version = g.dataset_version ORDER BY g.n
        ON CONFLICT (dataset_version, identity) DO NOTHING
    RETURNING id
), moved AS (
    UPDATE dataset_versions v SET position = l.position + g.events
      FROM locked l
      JOIN (SELECT dataset_version, count(*) AS events FROM given GROUP BY dataset_version) g
        ON g.dataset_version = l.version
     WHERE v.version = l.version
), owed AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'route', jsonb_build_object('event_ids', jsonb_agg(id))
      FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / 500 AS chunk FROM recorded) c
     GROUP BY chunk
)
SELECT count(*) FROM recorded;

-- name: close_full_tasks!
-- An open task that absorbed very much starts as it is: its inputs travel in one message.
UPDATE tasks SET absorbs = NULL
 WHERE absorbs = '*' AND jsonb_array_length(inputs) >= :max_inputs
   AND generation_id IN (SELECT s.generation_id FROM subscriptions s
                           JOIN events v ON v.dataset_version = s.dataset_version
                          WHERE v.id = ANY(:event_ids));

-- name: route_events
-- One statement from event to announced tasks. An event goes to whoever subscribed to its generation
-- of the dataset, or to the one generation it is owed to; what a generation was given once, or a task
-- that exists, changes nothing. A task that has not started takes in what its job's strategy lets it.
-- The announcements come back hidden for a while: the caller sends them at once, and others only if
-- it dies before.
--
-- Its steps: what happened (fresh, known, happened, due), whom it concerns (concerned, woken), the
-- tasks of a key of their own (created), the tasks that take others in (numbered, pieces, opened),
-- which event went to which task (given, memo, scoped), and who is told (ready, outbox).
WITH fresh AS (
    -- Events that nobody routed yet: routed from here on.
    UPDATE events SET routed_at = clock_timestamp()
     WHERE id = ANY(:event_ids) AND routed_at IS NULL
    RETURNING *
), known AS MATERIALIZED (
    -- Events of old that some generation is still owed.
    SELECT * FROM events WHERE id = ANY(:owed_ids)
), happened AS (
    -- Both, a row for each event and for each generation that it is owed to.
    SELECT fresh.*, NULL::uuid AS owed_to, NULL::uuid AS again FROM fresh
    UNION ALL
    SELECT known.*, o.owed_to, o.again
      FROM unnest(:owed_ids::bigint[], :owed_to::uuid[], :again::uuid[])
           AS o (event_id, owed_to, again)
      JOIN known ON known.id = o.event_id
), due AS (
    -- A range of what has neither files nor a table says that it is there, not that it changed.
    SELECT h.*, h.identity = 'partition:' || h.partition_key
                AND NOT EXISTS (SELECT FROM dataset_versions
                                 WHERE version = h.dataset_version AND location IS NOT NULL)
                AND NOT EXISTS (SELECT FROM partition_versions
                                 WHERE dataset_version = h.dataset_version AND superseded_at IS NULL)
                AS only_announced
      FROM happened h
), concerned AS (
    -- Once for each event and each generation that subscribed: the key of its task, the key under
    -- which a waiting task takes it in (absorbs), and the input that the task is given.
    SELECT DISTINCT ON (s.generation_id, due.id) due.id AS event_id, s.generation_id, j.id AS job_id,
           j.org_id, greatest(j.priority, due.priority) AS priority, j.runtime,
           due.dataset_version || ':' || due.identity || coalesce('@' || due.again, '') AS dedupe_key,
           CASE WHEN j.execution_strategy = 'Bulk'
                  OR (j.pressure_mode = 'coalesce' AND p.from_rank <= j.priority) THEN '*'
                -- What is to be done again has a scope of its own.
                WHEN due.invalidation_id IS NOT NULL THEN NULL
                -- Each dataset by itself: an update of one does not stand for another's.
                WHEN j.execution_strategy = 'PerPartition'
                THEN due.dataset_uuid || ':' || due.partition_key END AS absorbs,
           coalesce(j.pressure_mode = 'pause' AND p.from_rank <= j.priority, false) AS pending,
           due.invalidation_id,
           jsonb_strip_nulls(jsonb_build_object(
               'input_index', s.input_index, 'dataset_uuid', due.dataset_uuid,
               'dataset_version', due.dataset_version, 'cursor', due.cursor,
               'partition_key', due.partition_key, 'start', due.range_start,
               'end', due.range_end, 'invalidation', due.invalidation_id,
               -- None: it is to be done whatever was read before.
               'changed_at', CASE WHEN due.redo THEN NULL WHEN due.only_announced THEN 0
                                  ELSE due.position END,
               -- Of another DAG's dataset all that is owed takes the place of something.
               'replaces', nullif(due.replaces OR due.owed_to IS NOT NULL
                                  AND j.dag_name <> (SELECT d.dag_name FROM datasets d
                                                      WHERE d.uuid = due.dataset_uuid), false)))
           || CASE WHEN s.filter IS NULL THEN '{}' ELSE jsonb_build_object('where', s.filter) END
               AS input
      FROM due
      JOIN subscriptions s ON s.dataset_version = due.dataset_version
                          AND CASE WHEN due.owed_to IS NULL THEN NOT s.held
                                   ELSE s.generation_id = due.owed_to
                                        -- Before its turn in a build; then it is owed once more.
                                        AND s.generation_id <> ALL(ARRAY(
                                            SELECT unnest(waiting) FROM deploys
                                             WHERE status = 'Building')) END
      JOIN jobs j ON j.id = s.job_id
      LEFT JOIN job_pressure p ON p.job_id = j.id
     -- A cursor is no partition.
     WHERE (j.execution_strategy IS DISTINCT FROM 'PerPartition' OR due.partition_key IS NOT NULL)
       -- A subquery for each row, never a join with all that was ever routed.
       AND (SELECT true FROM task_inputs i
             WHERE i.event_id = due.id AND i.generation_id = s.generation_id) IS NULL
     ORDER BY s.generation_id, due.id, s.input_index
), woken AS MATERIALIZED (
    -- A task that an event, forgotten since, had made of old.
    SELECT c.*, (SELECT t.id FROM tasks t
                  WHERE t.generation_id = c.generation_id AND t.dedupe_key = c.dedupe_key) AS old_id
      FROM concerned c
), created AS (
    -- A task for each event, of those that nothing takes in.
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs,
                       pending_backpressure)
    SELECT org_id, job_id, generation_id, dedupe_key, runtime, priority, jsonb_build_array(input),
           pending
      FROM woken WHERE absorbs IS NULL AND old_id IS NULL ORDER BY event_id
        ON CONFLICT (generation_id, dedupe_key) DO NOTHING
    RETURNING id, job_id, generation_id, dedupe_key, runtime, pending_backpressure
), numbered AS (
    -- The others, cut into pieces of as many inputs as a task may have.
    -- The last piece stays open; those before it are full.
    SELECT w.*, (row_number() OVER latest - 1) / :max_inputs AS piece
      FROM woken w WHERE absorbs IS NOT NULL AND old_id IS NULL
    WINDOW latest AS (PARTITION BY generation_id, absorbs ORDER BY event_id DESC)
), pieces AS MATERIALIZED (
    -- A piece has the key of its first event.
    SELECT n.*, first_value(dedupe_key) OVER (
               PARTITION BY generation_id, absorbs, piece ORDER BY event_id) AS piece_key
      FROM numbered n
), opened AS (
    -- A task for each piece; the last one joins the task that waits already, if there is one.
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, absorbs, inputs,
                       pending_backpressure)
    SELECT org_id, job_id, generation_id, piece_key, runtime, min(priority),
           CASE WHEN piece = 0 THEN absorbs END,
           -- Of one partition only the newest counts: a task reads what is current when it starts.
           CASE WHEN absorbs = '*' THEN jsonb_agg(input ORDER BY event_id)
                ELSE jsonb_build_array((array_agg(input ORDER BY event_id DESC))[1]) END,
           bool_or(pending)
      FROM pieces WHERE absorbs = '*' OR piece = 0
     GROUP BY org_id, job_id, generation_id, runtime, absorbs, piece, piece_key
     ORDER BY generation_id, absorbs, piece DESC
        ON CONFLICT (generation_id, absorbs) WHERE absorbs IS NOT NULL DO UPDATE
       SET inputs = CASE WHEN tasks.absorbs = '*' THEN tasks.inputs || excluded.inputs
                         -- Routed later, it may have happened before.
                         WHEN tasks.inputs->0->>'dataset_version'
                              = excluded.inputs->0->>'dataset_version'
                              AND (tasks.inputs->0->>'changed_at')::bigint
                                  > (excluded.inputs->0->>'changed_at')::bigint THEN tasks.inputs
                         ELSE excluded.inputs END,
           priority = least(tasks.priority, excluded.priority)
    RETURNING id, job_id, generation_id, runtime, pending_backpressure, absorbs, dedupe_key,
              xmax = 0 AS new
), given AS (
    -- Which task each event went to: a new one, one of old, the open one, or a full piece.
    SELECT w.event_id, w.generation_id, w.invalidation_id, c.id AS task_id
      FROM woken w JOIN created c ON c.generation_id = w.generation_id
                                 AND c.dedupe_key = w.dedupe_key
    UNION ALL
    SELECT event_id, generation_id, invalidation_id, old_id FROM woken WHERE old_id IS NOT NULL
    UNION ALL
    SELECT p.event_id, p.generation_id, p.invalidation_id, o.id
      FROM pieces p JOIN opened o ON o.generation_id = p.generation_id AND o.absorbs = p.absorbs
     WHERE p.piece = 0 OR p.absorbs <> '*'
    UNION ALL
    SELECT p.event_id, p.generation_id, p.invalidation_id, o.id
      FROM pieces p JOIN opened o ON o.generation_id = p.generation_id
                                 AND o.dedupe_key = p.piece_key
     WHERE p.piece > 0 AND p.absorbs = '*' AND o.absorbs IS NULL
), memo AS (
    -- Kept, so that routing again gives nothing twice.
    INSERT INTO task_inputs (event_id, generation_id, task_id)
    SELECT event_id, generation_id, task_id FROM given ORDER BY event_id
), scoped AS (
    -- An invalidation ends once its tasks have.
    INSERT INTO invalidation_tasks (invalidation_id, task_id)
    SELECT DISTINCT invalidation_id, task_id FROM given
     WHERE invalidation_id IS NOT NULL AND task_id IS NOT NULL
        ON CONFLICT DO NOTHING
), ready AS (
    -- New tasks that may start; of a job with a limit no more than that: the others are claimed as
    -- these end.
    SELECT t.id, t.runtime, j.max_concurrency,
           row_number() OVER (PARTITION BY t.job_id ORDER BY t.id) AS n
      FROM (SELECT id, job_id, runtime FROM created WHERE NOT pending_backpressure
            UNION ALL
            SELECT id, job_id, runtime FROM opened WHERE new AND NOT pending_backpressure) t
      JOIN jobs j ON j.id = t.job_id
)
INSERT INTO outbox (kind, payload, available_at)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id ORDER BY id)),
       clock_timestamp() + make_interval(secs => CASE WHEN runtime = ANY(:sent_at_once) THEN :hide_s
                                                      ELSE 0 END)
  FROM (SELECT id, runtime, (row_number() OVER (PARTITION BY runtime ORDER BY id) - 1) / 500 AS chunk
          FROM ready WHERE max_concurrency IS NULL OR n <= max_concurrency) c
 GROUP BY runtime, chunk
RETURNING id, kind, payload;

-- name: known_generation$
SELECT true FROM dataset_versions v JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE v.version = :dataset_version AND v.dataset_uuid = :dataset_uuid AND d.org_id = :org_id;

-- name: list_events
SELECT e.id AS event_id, e.dataset_uuid, d.name AS dataset_name, d.dag_name, d.job_name,
       d.output_index, e.dataset_version, e.cursor, e.partition_key, e.range_start AS start,
       e.range_end AS "end", e.producer_task_id, e.producer_attempt, e.recorded_at, e.routed_at,
       e.dataset_version = d.current_version AS current
  FROM events e JOIN datasets d ON d.uuid = e.dataset_uuid
 WHERE e.org_id = :org_id AND (:dataset_uuid::uuid IS NULL OR e.dataset_uuid = :dataset_uuid)
 ORDER BY e.id DESC LIMIT :limit;
