-- name: record_events$
-- Recorded once per identity; what is new is owed to the router, in chunks that route quickly.
WITH given AS (
    SELECT DISTINCT ON (dataset_version, identity) *
      FROM (SELECT e.*, CASE
                     WHEN e.cursor IS NOT NULL THEN 'cursor:' || e.cursor
                     WHEN e.materialisation IS NOT NULL
                         THEN 'partition:' || e.partition_key || '@' || e.materialisation
                     ELSE 'partition:' || e.partition_key END AS identity
              FROM jsonb_to_recordset(:events) AS e (
                   dataset_uuid uuid, dataset_version uuid, cursor bigint, partition_key text,
                   "start" bigint, "end" bigint, materialisation text)) named
), recorded AS (
    INSERT INTO events (org_id, dataset_uuid, dataset_version, identity, cursor, partition_key,
                        range_start, range_end, producer_task_id, producer_attempt)
    SELECT :org_id, dataset_uuid, dataset_version, identity, cursor, partition_key, "start", "end",
           :producer_task_id, :producer_attempt
      FROM given
        ON CONFLICT (dataset_version, identity) DO NOTHING
    RETURNING id
), owed AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'route', jsonb_build_object('event_ids', jsonb_agg(id))
      FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / 500 AS chunk FROM recorded) c
     GROUP BY chunk
)
SELECT count(*) FROM recorded;

-- name: route_events
-- One statement from event to announced tasks. Only the current generation is routed; an event that
-- was routed before, or a task that exists, changes nothing.
WITH due AS (
    UPDATE events SET routed_at = clock_timestamp()
     WHERE id = ANY(:event_ids) AND routed_at IS NULL
    RETURNING *
), woken AS (
    SELECT DISTINCT ON (j.id, due.id) j.id AS job_id, j.org_id, j.priority, j.runtime,
           due.dataset_version || ':' || due.identity AS dedupe_key,
           jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
               'input_index', e.input_index, 'dataset_uuid', due.dataset_uuid,
               'dataset_version', due.dataset_version, 'cursor', due.cursor,
               'partition_key', due.partition_key, 'start', due.range_start,
               'end', due.range_end))) AS inputs
      FROM due
      JOIN datasets d ON d.uuid = due.dataset_uuid AND d.current_version = due.dataset_version
      JOIN input_edges e ON e.dataset_uuid = due.dataset_uuid
      JOIN jobs j ON j.id = e.job_id AND j.activation = 'reactive'
      JOIN dag_version_jobs v ON v.job_id = j.id
      JOIN active_dags a ON a.dag_version_id = v.dag_version_id
     ORDER BY j.id, due.id, e.input_index
), created AS (
    INSERT INTO tasks (org_id, job_id, dedupe_key, priority, inputs)
    SELECT org_id, job_id, dedupe_key, priority, inputs FROM woken
        ON CONFLICT (job_id, dedupe_key) DO NOTHING
    RETURNING id, job_id
), announced AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'enqueue', jsonb_build_object('queue', j.runtime, 'task_id', c.id)
      FROM created c JOIN jobs j ON j.id = c.job_id
)
SELECT id FROM created;
