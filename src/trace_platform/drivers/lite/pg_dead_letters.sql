-- name: listing
SELECT * FROM queue.dead(:queue::text, :ids::bigint[], :limit::integer);

-- name: count$
SELECT queue.count_dead(:queue::text);

-- name: resend
SELECT queue.resend_dead(:ids::bigint[]) AS id;

-- name: drop
SELECT queue.drop_dead(:ids::bigint[]) AS id;

-- name: forget$
SELECT queue.forget(:keep_days::float8, :limit::integer);
