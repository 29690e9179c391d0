-- name: seen!
INSERT INTO workers (worker_id, runtime, slots)
VALUES (:worker_id, :runtime, :slots)
    ON CONFLICT (worker_id) DO UPDATE
   SET runtime = excluded.runtime, slots = excluded.slots, seen_at = clock_timestamp();
