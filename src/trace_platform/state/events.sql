-- name: record_events$
-- Recorded once per identity; what is new is owed to the router, in chunks that route quickly.
WITH given AS (
    SELECT DISTINCT ON (dataset_version, identity) *
      FROM (SELECT e.*, CASE
                     WHEN e.cursor IS NOT NULL THEN 'cursor:' || e.cursor
                     WHEN e.materialisation IS NOT NULL
                         THEN 'partition:' || e.partition_key || '@' || e.materialisation
                     ELSE 'partition:' || e.partition_key END AS identity
              FROM ROWS FROM (jsonb_to_recordset(:events) AS (
                   org_id uuid, dataset_uuid uuid, dataset_version uuid, cursor bigint,
                   partition_key text, "start" bigint, "end" bigint, materialisation text,
                   task_id uuid, attempt integer)) WITH ORDINALITY AS e (
                   org_id, dataset_uuid, dataset_version, cursor, partition_key, "start", "end",
                   materialisation, task_id, attempt, n)) named
     ORDER BY dataset_version, identity, n
), recorded AS (
    INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, cursor, partition_key,
                        range_start, range_end, producer_task_id, producer_attempt)
    SELECT org_id, dataset_uuid, dataset_version, identity, cursor, partition_key, "start", "end",
           task_id, attempt
      FROM given ORDER BY n
        ON CONFLICT (dataset_version, identity) DO NOTHING
    RETURNING id
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
   AND job_id IN (SELECT e.job_id FROM input_edges e
                    JOIN events v ON v.dataset_uuid = e.dataset_uuid
                   WHERE v.id = ANY(:event_ids));

-- name: route_events
-- One statement from event to announced tasks. Only the current generation is routed; an event that
-- was routed before, or a task that exists, changes nothing. A task that has not started takes in
-- what its job's strategy lets it. The announcements come back hidden for a while: the caller sends
-- them at once, and others only if it dies before.
WITH due AS (
    UPDATE events SET routed_at = clock_timestamp()
     WHERE id = ANY(:event_ids) AND routed_at IS NULL
    RETURNING *
), woken AS (
    SELECT DISTINCT ON (j.id, due.id) due.id AS event_id, j.id AS job_id, j.org_id, j.priority,
           j.runtime, due.dataset_version || ':' || due.identity AS dedupe_key,
           CASE WHEN j.execution_strategy = 'Bulk'
                  OR (j.pressure_mode = 'coalesce' AND p.from_rank <= j.priority) THEN '*'
                -- Each dataset by itself: an update of one does not stand for another's.
                WHEN j.execution_strategy = 'PerPartition'
                THEN due.dataset_uuid || ':' || due.partition_key END AS absorbs,
           coalesce(j.pressure_mode = 'pause' AND p.from_rank <= j.priority, false) AS pending,
           jsonb_strip_nulls(jsonb_build_object(
               'input_index', e.input_index, 'dataset_uuid', due.dataset_uuid,
               'dataset_version', due.dataset_version, 'cursor', due.cursor,
               'partition_key', due.partition_key, 'start', due.range_start,
               'end', due.range_end))
           || CASE WHEN e.filter IS NULL THEN '{}' ELSE jsonb_build_object('where', e.filter) END
               AS input
      FROM due
      JOIN datasets d ON d.uuid = due.dataset_uuid AND d.current_version = due.dataset_version
      JOIN input_edges e ON e.dataset_uuid = due.dataset_uuid
      JOIN jobs j ON j.id = e.job_id AND j.activation = 'reactive'
      JOIN dag_version_jobs v ON v.job_id = j.id
      JOIN active_dags a ON a.dag_version_id = v.dag_version_id
      LEFT JOIN job_pressure p ON p.job_id = j.id
     -- A cursor is no partition.
     WHERE j.execution_strategy IS DISTINCT FROM 'PerPartition' OR due.partition_key IS NOT NULL
     ORDER BY j.id, due.id, e.input_index
), created AS (
    INSERT INTO tasks (org_id, job_id, dedupe_key, runtime, priority, inputs, pending_backpressure)
    SELECT org_id, job_id, dedupe_key, runtime, priority, jsonb_build_array(input), pending
      FROM woken WHERE absorbs IS NULL ORDER BY event_id
        ON CONFLICT (job_id, dedupe_key) DO NOTHING
    RETURNING id, job_id, runtime, pending_backpressure
), pieces AS (
    -- The last piece stays open; those before it are full.
    SELECT w.*, (row_number() OVER latest - 1) / :max_inputs AS piece
      FROM woken w
     -- A task of old that an event forgotten since had made.
     WHERE absorbs IS NOT NULL
       AND NOT EXISTS (SELECT FROM tasks t
                        WHERE t.job_id = w.job_id AND t.dedupe_key = w.dedupe_key)
    WINDOW latest AS (PARTITION BY job_id, absorbs ORDER BY event_id DESC)
), opened AS (
    INSERT INTO tasks (org_id, job_id, dedupe_key, runtime, priority, absorbs, inputs,
                       pending_backpressure)
    SELECT org_id, job_id, (array_agg(dedupe_key ORDER BY event_id))[1], runtime, priority,
           CASE WHEN piece = 0 THEN absorbs END,
           -- Of one partition only the newest counts: a task reads what is current when it starts.
           CASE WHEN absorbs = '*' THEN jsonb_agg(input ORDER BY event_id)
                ELSE jsonb_build_array((array_agg(input ORDER BY event_id DESC))[1]) END,
           bool_or(pending)
      FROM pieces WHERE absorbs = '*' OR piece = 0
     GROUP BY org_id, job_id, runtime, priority, absorbs, piece
     ORDER BY job_id, absorbs, piece DESC
        ON CONFLICT (job_id, absorbs) WHERE absorbs IS NOT NULL DO UPDATE
       SET inputs = CASE WHEN tasks.absorbs = '*' THEN tasks.inputs || excluded.inputs
                         ELSE excluded.inputs END
    RETURNING id, job_id, runtime, pending_backpressure, xmax = 0 AS new
), ready AS (
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
