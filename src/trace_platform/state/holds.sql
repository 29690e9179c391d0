-- name: of_job
SELECT cause, from_rank, reason, since FROM job_holds
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name ORDER BY since;

-- name: pause!
INSERT INTO job_holds (org_id, dag_name, job_name, cause, from_rank, reason)
VALUES (:org_id, :dag_name, :job_name, 'user', 0, :reason)
    ON CONFLICT (org_id, dag_name, job_name, cause) DO NOTHING;

-- name: resume!
DELETE FROM job_holds
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name AND cause = 'user';

-- name: announce_ready!
-- What waits of this job is announced again, as much as may run at once.
WITH ready AS (
    SELECT t.id, t.runtime
      FROM jobs j CROSS JOIN LATERAL (
           SELECT id, runtime FROM tasks
            WHERE job_id = j.id AND runtime = j.runtime
              AND status = 'Queued' AND NOT pending_backpressure
            ORDER BY priority, queued_at, id
            LIMIT least(:limit, coalesce(j.max_concurrency, :limit))) t
     WHERE j.org_id = :org_id AND j.dag_name = :dag_name AND j.name = :job_name
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id))
  FROM ready GROUP BY runtime;
