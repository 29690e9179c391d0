-- name: seen!
INSERT INTO workers (worker_id, runtime, slots, source_slots)
VALUES (:worker_id, :runtime, :slots, :source_slots)
    ON CONFLICT (worker_id) DO UPDATE
   SET runtime = excluded.runtime, slots = excluded.slots, source_slots = excluded.source_slots,
       seen_at = clock_timestamp();
