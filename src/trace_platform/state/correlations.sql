-- name: arrive^
-- The key's row is locked from here on: the next arrival, and the time-out, wait or look elsewhere.
-- No row back: the key is closed. A job that reads one dataset through several inputs hears of it
-- through the first of them alone, so it is datasets that are counted.
INSERT INTO correlations AS c (generation_id, job_id, key, arrived, event, expires_at)
VALUES (:generation_id, :job_id, :key, :arrived, :event,
        clock_timestamp() + make_interval(secs => :timeout_s::double precision))
    ON CONFLICT (generation_id, key) DO UPDATE
   SET arrived = ARRAY(SELECT unnest(c.arrived) UNION SELECT unnest(excluded.arrived) ORDER BY 1)
 WHERE c.closed_at IS NULL
RETURNING cardinality(c.arrived) AS arrived,
          (SELECT count(DISTINCT e.dataset_uuid) FROM input_edges e
            WHERE e.job_id = c.job_id AND e.trigger)
              AS inputs;

-- name: complete!
UPDATE correlations SET closed_at = clock_timestamp(), outcome = 'Complete'
 WHERE generation_id = :generation_id AND key = :key AND closed_at IS NULL;

-- name: expire
-- One that something arrives for at this moment is left to whoever holds it.
WITH due AS MATERIALIZED (
    SELECT generation_id, key FROM correlations
     WHERE closed_at IS NULL AND expires_at <= (SELECT clock_timestamp())
     ORDER BY expires_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
UPDATE correlations c SET closed_at = clock_timestamp(), outcome = 'TimedOut'
  FROM due, jobs j
 WHERE c.generation_id = due.generation_id AND c.key = due.key AND j.id = c.job_id
RETURNING c.key, c.arrived, c.event, j.org_id, j.dag_name, j.name AS job_name, j.config;
