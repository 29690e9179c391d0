-- name: take_routes
-- Routing is a change of this database, so a row goes with the very transaction that routes it.
-- Chosen in a materialised CTE: as a subquery it could be run again for every row it is joined to,
-- and LIMIT would mean nothing. Never by "id > last": concurrent commits make gaps.
WITH due AS MATERIALIZED (
    SELECT id FROM outbox
     WHERE kind = 'route' AND available_at <= (SELECT clock_timestamp())
     ORDER BY available_at, id LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
DELETE FROM outbox o USING due WHERE o.id = due.id RETURNING o.id, o.kind, o.payload;

-- name: plan_for_routing!
-- The statement that routes joins what it just made with itself, which no index helps.
SELECT set_config('enable_hashjoin', 'on', true);

-- name: claim
-- For effects outside of this database. A crash after this hides the rows for a while, never for good.
WITH due AS MATERIALIZED (
    SELECT id FROM outbox
     WHERE kind <> 'route' AND available_at <= (SELECT clock_timestamp())
       AND (kind = 'buffer' OR payload->>'runtime' = ANY(:runtimes)) = :sent
     ORDER BY available_at, id LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
   SET available_at = clock_timestamp() + make_interval(secs => :hide_s)
  FROM due
 WHERE o.id = due.id
RETURNING o.id, o.kind, o.payload;

-- name: split_routes!
WITH whole AS (
    DELETE FROM outbox
     WHERE id = ANY(:ids)
       AND CASE WHEN jsonb_typeof(payload->'event_ids') = 'array'
                THEN jsonb_array_length(payload->'event_ids') > 1 END
    RETURNING payload
)
INSERT INTO outbox (kind, payload)
SELECT 'route', payload || jsonb_build_object('event_ids', jsonb_build_array(event_id))
  FROM whole, jsonb_array_elements(payload->'event_ids') AS event_id;

-- name: postpone!
UPDATE outbox SET available_at = clock_timestamp() + make_interval(secs => :seconds)
 WHERE id = ANY(:ids);

-- name: settle!
DELETE FROM outbox WHERE id = ANY(:ids);
