-- name: claim
-- A crash after this hides the rows for a while, never for good.
UPDATE outbox o
   SET available_at = clock_timestamp() + make_interval(secs => :hide_s)
  FROM (SELECT id FROM outbox
         WHERE available_at <= clock_timestamp()
         ORDER BY available_at, id LIMIT :limit
           FOR UPDATE SKIP LOCKED) due
 WHERE o.id = due.id
RETURNING o.id, o.kind, o.payload;

-- name: settle!
DELETE FROM outbox WHERE id = ANY(:ids);
