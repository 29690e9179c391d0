-- name: stopping
SELECT h.cause, h.from_rank, h.reason, h.since
  FROM job_holds h
  LEFT JOIN (active_dags a
             JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
             JOIN jobs j ON j.id = v.job_id)
    ON a.org_id = h.org_id AND a.dag_name = h.dag_name AND j.name = h.job_name
 WHERE h.org_id = :org_id AND h.dag_name = :dag_name AND h.job_name = :job_name
   -- A job that is not deployed any more has no priority: then any hold counts.
   AND h.from_rank <= coalesce(j.priority, h.from_rank)
 ORDER BY h.since;

-- name: pause!
INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)
VALUES (:org_id, :dag_name, :job_name, 'user', 0, :reason)
    ON CONFLICT (org_id, dag_name, job_name, cause) DO NOTHING;

-- name: resume!
DELETE FROM job_holds
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name AND cause = 'user';

-- name: announce_ready!
-- What waits of this job is announced again, as much as may run at once: a worker takes one task
-- per wake-up.
WITH ready AS (
    SELECT t.id, t.runtime, j.activation = 'source' AS sources,
           (row_number() OVER (PARTITION BY t.runtime) - 1) / 500 AS chunk
      FROM jobs j CROSS JOIN LATERAL (
           SELECT id, runtime FROM tasks
            WHERE job_id = j.id AND runtime = j.runtime
              AND status = 'Queued' AND NOT pending_backpressure
            ORDER BY priority, queued_at, id
            LIMIT least(:limit, coalesce(j.max_concurrency, :limit))) t
     WHERE j.org_id = :org_id AND j.dag_name = :dag_name AND j.name = :job_name
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'sources', sources,
                                     'task_ids', jsonb_agg(id))
  FROM ready GROUP BY runtime, sources, chunk;
