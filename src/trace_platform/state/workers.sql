-- name: seen!
INSERT INTO workers (worker_id, runtime, slots, source_slots, polled_s)
VALUES (:worker_id, :runtime, :slots, :source_slots, :polled_s)
    ON CONFLICT (worker_id) DO UPDATE
   SET runtime = excluded.runtime, slots = excluded.slots, source_slots = excluded.source_slots,
       polled_s = excluded.polled_s, seen_at = clock_timestamp();
