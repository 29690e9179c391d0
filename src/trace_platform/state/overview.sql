-- Everything here only reads, for people and for metrics. What is alive is found by the partial
-- indexes of tasks (ready, deferred, running, retries): history is never counted.

-- name: queues
-- Each definition of a job that is deployed or has something left to do.
WITH ready AS MATERIALIZED (
    SELECT runtime, job_id, count(*) AS tasks, min(queued_at) AS oldest FROM tasks
     WHERE status = 'Queued' AND NOT pending_backpressure GROUP BY runtime, job_id
), deferred AS MATERIALIZED (
    SELECT job_id, count(*) AS tasks FROM tasks
     WHERE status = 'Queued' AND pending_backpressure GROUP BY job_id
), running AS MATERIALIZED (
    SELECT job_id, count(*) AS tasks FROM tasks WHERE status = 'Running' GROUP BY job_id
), retrying AS MATERIALIZED (
    SELECT job_id, count(*) AS tasks FROM tasks
     WHERE status = 'Failed' AND next_retry_at IS NOT NULL GROUP BY job_id
), active AS MATERIALIZED (
    SELECT v.job_id FROM active_dags a JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
     WHERE a.org_id = :org_id
), concerned AS (
    SELECT job_id FROM ready UNION SELECT job_id FROM deferred UNION SELECT job_id FROM running
    UNION SELECT job_id FROM retrying UNION SELECT job_id FROM active
)
SELECT j.id AS job_id, j.dag_name, j.name AS job_name, j.runtime, j.priority, j.activation,
       j.max_concurrency, EXISTS (SELECT FROM active a WHERE a.job_id = j.id) AS active,
       coalesce(q.tasks, 0) AS ready, coalesce(d.tasks, 0) AS deferred,
       coalesce(r.tasks, 0) AS running, coalesce(f.tasks, 0) AS retrying,
       extract(epoch FROM clock_timestamp() - q.oldest)::float8 AS oldest_age_s
  FROM concerned c
  JOIN jobs j ON j.id = c.job_id AND j.org_id = :org_id
  LEFT JOIN ready q ON q.job_id = j.id
  LEFT JOIN deferred d ON d.job_id = j.id
  LEFT JOIN running r ON r.job_id = j.id
  LEFT JOIN retrying f ON f.job_id = j.id
 WHERE j.runtime IS NOT NULL
 ORDER BY j.dag_name, j.created_at, j.name;

-- name: holds
-- The consumer whose queue is too long has a name; a hold that a user made has none.
SELECT h.dag_name, h.job_name, h.cause, h.from_rank, h.reason, h.since,
       c.dag_name || '.' || c.name AS consumer
  FROM job_holds h
  LEFT JOIN jobs c ON c.id::text = h.cause AND c.org_id = h.org_id
 WHERE h.org_id = :org_id ORDER BY h.since, h.cause;

-- name: pressures
SELECT p.job_id, j.dag_name, j.name AS job_name, p.from_rank, p.depth, p.age_s, p.since,
       j.pressure_mode, j.max_queue_depth, j.max_queue_age_s
  FROM job_pressure p JOIN jobs j ON j.id = p.job_id
 WHERE j.org_id = :org_id;

-- name: workers
-- How much each does is what its leases say.
WITH held AS MATERIALIZED (
    SELECT worker_id, count(*) FILTER (WHERE dedupe_key <> 'run') AS tasks,
           count(*) FILTER (WHERE dedupe_key = 'run') AS sources
      FROM tasks WHERE status = 'Running' GROUP BY worker_id
)
SELECT w.worker_id, w.runtime, w.slots, coalesce(h.tasks, 0) AS running, w.source_slots,
       coalesce(h.sources, 0) AS running_sources, w.polled_s,
       extract(epoch FROM clock_timestamp() - w.seen_at)::float8 AS seen_s
  FROM workers w LEFT JOIN held h ON h.worker_id = w.worker_id
 WHERE w.seen_at > clock_timestamp() - make_interval(secs => :within_s)
 ORDER BY w.runtime, w.worker_id;

-- name: outbox^
-- A row that was put off is not late.
SELECT count(*) AS rows,
       coalesce(extract(epoch FROM clock_timestamp() - min(created_at)
                        FILTER (WHERE available_at <= clock_timestamp())), 0)::float8 AS lag_s
  FROM outbox;

-- name: source_lags
-- How long ago each source emitted; one that never did is absent.
SELECT j.dag_name, j.name AS job_name,
       extract(epoch FROM clock_timestamp() - max(e.recorded_at))::float8 AS lag_s
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id AND j.activation = 'source'
  JOIN datasets d ON d.org_id = j.org_id AND d.dag_name = j.dag_name AND d.job_name = j.name
 CROSS JOIN LATERAL (
       SELECT recorded_at FROM events WHERE dataset_uuid = d.uuid ORDER BY id DESC LIMIT 1) e
 WHERE a.org_id = :org_id GROUP BY j.dag_name, j.name;

-- name: recent_ends^
-- Among the newest tasks that ended: however long the history is, no more is looked at.
SELECT count(*) FILTER (WHERE status = 'Failed') AS failed, count(*) AS ended
  FROM (SELECT status, completed_at FROM tasks
         WHERE org_id = :org_id AND id >= (SELECT uuid7_at(clock_timestamp() - interval '1 day'))
           AND (status = 'Completed' OR status = 'Failed' AND next_retry_at IS NULL)
         ORDER BY id DESC LIMIT :newest) t
 WHERE completed_at > clock_timestamp() - make_interval(secs => :within_s);

-- name: longest_lock_wait^
-- Which statement of ours waits the longest for a lock, and for whom.
SELECT extract(epoch FROM clock_timestamp() - query_start)::float8 AS waits_s,
       pg_blocking_pids(pid) AS held_by
  FROM pg_stat_activity
 WHERE usename = current_user AND datname = current_database() AND wait_event_type = 'Lock'
 ORDER BY query_start LIMIT 1;

-- name: source_silences
-- Sources that run, and for how long nothing was heard of them.
SELECT j.dag_name, j.name AS job_name, t.id AS task_id,
       extract(epoch FROM clock_timestamp() - t.lease_expires_at)::float8
           + j.heartbeat_timeout_seconds AS silent_s,
       -- Of a head that was heard of.
       CASE WHEN t.progress->>'heard_s' IS NOT NULL
            THEN (t.progress->>'total')::bigint - (t.progress->>'done')::bigint END AS behind,
       (t.progress->>'heard_s')::float8 AS heard_s,
       CASE WHEN t.progress->>'stuck' IS NOT NULL
            THEN (t.progress->>'stuck_s')::float8 ELSE 0 END AS stuck_s
  FROM tasks t JOIN jobs j ON j.id = t.job_id AND j.activation = 'source'
 WHERE t.status = 'Running' AND j.org_id = :org_id
 ORDER BY silent_s DESC;

-- name: outages
-- Jobs whose tasks wait for something that is away: since when, how many, and what the newest met.
SELECT j.dag_name, j.name AS job_name, count(*) AS tasks,
       extract(epoch FROM clock_timestamp() - min(t.outage_since))::float8 AS lasts_s,
       (array_agg(t.error_code ORDER BY t.outage_since DESC)
            FILTER (WHERE t.error_code IS NOT NULL))[1] AS error_code,
       (array_agg(t.error_message ORDER BY t.outage_since DESC)
            FILTER (WHERE t.error_code IS NOT NULL))[1] AS error_message
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.outage_since IS NOT NULL AND t.org_id = :org_id
   AND (t.status IN ('Queued', 'Running') OR t.status = 'Failed' AND t.next_retry_at IS NOT NULL)
 GROUP BY j.dag_name, j.name
 ORDER BY lasts_s DESC;

-- name: task^
SELECT t.id AS task_id, t.org_id, t.job_id, j.dag_name, j.name AS job_name, j.activation, j.operator,
       t.runtime, t.status, t.priority, t.attempt, t.forgiven, t.inputs, t.outputs, t.progress,
       t.pending_backpressure, t.note, t.worker_id, t.lease_expires_at, t.cancel_requested_at,
       t.next_retry_at, t.outage_since, t.announce_again_at, t.error_code, t.error_message, t.created_at,
       t.queued_at, t.started_at, t.completed_at, j.max_attempts, j.timeout_seconds, j.heartbeat_timeout_seconds, j.max_concurrency,
       j.max_queue_depth, j.max_queue_age_s, j.pressure_mode, clock_timestamp() AS now
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.id = :task_id AND t.org_id = :org_id;

-- name: task_groups
-- The newest tasks, those that are alike in one row, of which the newest is shown. What runs has rows
-- of its own. However many have completed since, what is open and what failed is among them.
WITH recent AS MATERIALIZED (
    SELECT t.id FROM tasks t JOIN jobs j ON j.id = t.job_id
     WHERE t.org_id = :org_id AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
     ORDER BY t.id DESC LIMIT :look
), open AS MATERIALIZED (
    SELECT id FROM live_tasks WHERE org_id = :org_id ORDER BY id DESC LIMIT :look
), failed AS MATERIALIZED (
    SELECT id FROM tasks WHERE org_id = :org_id AND status = 'Failed' ORDER BY id DESC LIMIT :look
), looked AS (
    SELECT id FROM recent UNION SELECT id FROM open UNION SELECT id FROM failed
), placed AS MATERIALIZED (
    SELECT t.id, count(*) OVER alike AS tasks, row_number() OVER (alike ORDER BY t.id DESC) AS n,
           min(t.created_at) OVER alike AS first_at, max(t.created_at) OVER alike AS last_at
      FROM looked l
      JOIN tasks t ON t.id = l.id
      JOIN jobs j ON j.id = t.job_id AND (:dag_name::text IS NULL OR j.dag_name = :dag_name)
    WINDOW alike AS (PARTITION BY j.dag_name, j.name, t.status, t.next_retry_at IS NULL,
                                  t.pending_backpressure, t.error_code,
                                  CASE WHEN t.status = 'Running' THEN t.id END)
)
SELECT t.id AS task_id, j.dag_name, j.name AS job_name, t.status, t.attempt, t.progress,
       t.inputs, t.error_code, t.error_message, t.next_retry_at, t.created_at, t.started_at,
       t.completed_at, t.pending_backpressure, t.note,
       CASE WHEN p.tasks < :fold THEN 1 ELSE p.tasks END AS tasks,
       CASE WHEN p.tasks < :fold THEN t.created_at ELSE p.first_at END AS first_at,
       CASE WHEN p.tasks < :fold THEN t.created_at ELSE p.last_at END AS last_at,
       (SELECT count(*) FROM recent) = :look AS older
  FROM placed p
  JOIN tasks t ON t.id = p.id
  JOIN jobs j ON j.id = t.job_id
 WHERE p.n = 1 OR p.tasks < :fold
 ORDER BY t.id DESC LIMIT :limit;

-- name: tasks_between
-- Ids that begin alike lie together.
SELECT t.id AS task_id, j.dag_name, j.name AS job_name, t.status, t.attempt, t.progress,
       t.inputs, t.error_code, t.error_message, t.next_retry_at, t.created_at, t.started_at,
       t.completed_at, t.pending_backpressure, t.note
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.org_id = :org_id AND t.id BETWEEN :first AND :last
 ORDER BY t.id DESC LIMIT :limit;

-- name: tasks_ending
-- For a person who names one: no index knows how ids end, so only the newest are looked at.
SELECT t.id AS task_id, j.dag_name, j.name AS job_name, t.status, t.attempt, t.progress,
       t.inputs, t.error_code, t.error_message, t.next_retry_at, t.created_at, t.started_at,
       t.completed_at, t.pending_backpressure, t.note
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.id = ANY(ARRAY(
       SELECT n.id FROM (SELECT id FROM tasks WHERE org_id = :org_id
                          ORDER BY id DESC LIMIT 500000) AS n
        WHERE right(replace(n.id::text, '-', ''), length(:digits)) = :digits
        ORDER BY n.id DESC LIMIT :limit))
 ORDER BY t.id DESC;

-- name: place^
-- The order of the claim, as far as it can be told beforehand: within the job exactly; of the
-- organisation's other jobs what has a higher priority and, of the same, what has an earlier turn,
-- no more than each of them has room for.
WITH mine AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE (priority, queued_at, id)
                                  < (:priority::smallint, :queued_at, :task_id)) AS before,
           count(*) AS ready
      FROM tasks
     WHERE status = 'Queued' AND NOT pending_backpressure AND runtime = :runtime
       AND job_id = :job_id
), running AS MATERIALIZED (
    SELECT job_id, count(*) AS tasks FROM tasks WHERE status = 'Running' GROUP BY job_id
), held AS MATERIALIZED (
    SELECT dag_name, job_name, min(from_rank) AS from_rank FROM job_holds
     WHERE org_id = :org_id GROUP BY dag_name, job_name
), others AS (
    SELECT t.job_id, j.max_concurrency, count(*) FILTER (WHERE t.priority < :priority) AS higher,
           count(*) FILTER (WHERE t.priority = :priority) AS same
      FROM tasks t
      JOIN jobs j ON j.id = t.job_id AND j.org_id = :org_id
      LEFT JOIN held h ON h.dag_name = j.dag_name AND h.job_name = j.name
     WHERE t.status = 'Queued' AND NOT t.pending_backpressure AND t.runtime = :runtime
       AND t.job_id <> :job_id AND t.priority < coalesce(h.from_rank, 32767)
     GROUP BY t.job_id, j.max_concurrency
)
SELECT m.before + 1 AS in_job, m.ready AS of_job,
       m.before + (
           SELECT coalesce(sum(least(
                      o.higher + least(o.same, greatest(0, m.before + coalesce(own.tasks, 0)
                                                          - coalesce(r.tasks, 0) - o.higher)),
                      greatest(0, coalesce(o.max_concurrency, 2147483647)
                                  - coalesce(r.tasks, 0)))), 0)
             FROM others o LEFT JOIN running r ON r.job_id = o.job_id)::bigint AS ahead
  FROM mine m LEFT JOIN running own ON own.job_id = :job_id;

-- name: slot_holders
SELECT id AS task_id, worker_id,
       extract(epoch FROM clock_timestamp() - started_at)::float8 AS running_s
  FROM tasks WHERE status = 'Running' AND job_id = :job_id ORDER BY started_at LIMIT :limit;

-- name: newest_failure^
-- Of the newest failures of all jobs: a job that fails is among them.
SELECT f.id AS task_id, f.attempt, f.error_code, f.error_message,
       extract(epoch FROM clock_timestamp() - f.completed_at)::float8 AS age_s
  FROM (SELECT id, job_id, attempt, error_code, error_message, completed_at, next_retry_at
          FROM tasks WHERE status = 'Failed' ORDER BY id DESC LIMIT :newest) f
 WHERE f.job_id = :job_id AND f.next_retry_at IS NULL
 ORDER BY f.completed_at DESC LIMIT 1;

-- name: inputs_of_job
SELECT coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       d.uuid AS dataset_uuid, d.dag_name || '.' || d.job_name AS producer, e.*
  FROM (SELECT DISTINCT ON (dataset_uuid) dataset_uuid, input_index FROM input_edges
         WHERE job_id = :job_id AND trigger ORDER BY dataset_uuid, input_index) i
  JOIN datasets d ON d.uuid = i.dataset_uuid
  LEFT JOIN LATERAL (
       SELECT id AS event_id, coalesce(partition_key, cursor::text) AS scope, recorded_at,
              extract(epoch FROM clock_timestamp() - recorded_at)::float8 AS age_s,
              routed_at IS NOT NULL AS routed
         FROM events WHERE dataset_uuid = d.uuid ORDER BY id DESC LIMIT 1) e ON true
 ORDER BY i.input_index;

-- name: newest_outputs
SELECT coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset,
       d.uuid AS dataset_uuid, d.dag_name || '.' || d.job_name AS producer, e.*
  FROM datasets d
  LEFT JOIN LATERAL (
       SELECT id AS event_id, coalesce(partition_key, cursor::text) AS scope, recorded_at,
              extract(epoch FROM clock_timestamp() - recorded_at)::float8 AS age_s,
              routed_at IS NOT NULL AS routed
         FROM events WHERE dataset_uuid = d.uuid ORDER BY id DESC LIMIT 1) e ON true
 WHERE d.org_id = :org_id AND d.dag_name = :dag_name AND d.job_name = :job_name
 ORDER BY d.output_index;

-- name: routing^
-- Whether something is recorded that will become tasks of the DAG: events that it reads, or what was
-- said to be invalid of what it reads or makes. One transaction takes the debt and makes the tasks, so
-- there is no moment in between.
SELECT clock_timestamp() AS as_of, EXISTS (
       SELECT FROM data_invalidations i
         JOIN datasets d ON d.uuid = i.dataset_uuid
        WHERE i.routed_at IS NULL AND i.org_id = :org_id
          AND (d.dag_name = :dag_name
               OR EXISTS (SELECT FROM input_edges e JOIN jobs j ON j.id = e.job_id
                           WHERE e.dataset_uuid = i.dataset_uuid AND j.org_id = :org_id
                             AND j.dag_name = :dag_name))) OR EXISTS (
       SELECT FROM outbox o
        CROSS JOIN LATERAL jsonb_array_elements_text(o.payload->'event_ids') owed (id)
         JOIN events v ON v.id = owed.id::bigint
         JOIN input_edges e ON e.dataset_uuid = v.dataset_uuid AND e.trigger
         JOIN jobs j ON j.id = e.job_id
        WHERE o.kind = 'route' AND j.org_id = :org_id AND j.dag_name = :dag_name) AS routing;

-- name: job_names
SELECT j.dag_name || '.' || j.name AS job
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id ORDER BY 1;

-- name: tasks_named
SELECT t.id, j.dag_name, j.name AS job_name, t.status
  FROM tasks t JOIN jobs j ON j.id = t.job_id WHERE t.id = ANY(:task_ids);
