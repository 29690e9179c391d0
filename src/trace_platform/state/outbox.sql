-- name: claim
-- A crash after this hides the rows for a while, never for good. Chosen in a materialised CTE: as a
-- subquery it could be run again for every row it is joined to, and LIMIT would mean nothing.
WITH due AS MATERIALIZED (
    SELECT id FROM outbox
     WHERE available_at <= (SELECT clock_timestamp())
     ORDER BY available_at, id LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
UPDATE outbox o
   SET available_at = clock_timestamp() + make_interval(secs => :hide_s)
  FROM due
 WHERE o.id = due.id
RETURNING o.id, o.kind, o.payload;

-- name: settle!
DELETE FROM outbox WHERE id = ANY(:ids);
