-- name: seen!
INSERT INTO workers (worker_id, runtime, slots, running)
VALUES (:worker_id, :runtime, :slots, :running)
    ON CONFLICT (worker_id) DO UPDATE
   SET runtime = excluded.runtime, slots = excluded.slots, running = excluded.running,
       seen_at = clock_timestamp();

-- name: alive
SELECT worker_id, runtime, slots, running, seen_at FROM workers
 WHERE seen_at > clock_timestamp() - make_interval(secs => :within_s) ORDER BY worker_id;

-- name: forget!
DELETE FROM workers WHERE seen_at < clock_timestamp() - make_interval(secs => :after_s);
