-- name: end_older_attempts!
-- A process that was stopped in the middle of a COPY keeps its locks for as long as it is stopped. One
-- that holds none is left alone: it will be told that its fence is stale.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE usename = current_user AND pid <> pg_backend_pid() AND state <> 'idle'
   AND CASE WHEN starts_with(application_name, :task_prefix)
            THEN substr(application_name, length(:task_prefix) + 1)::integer < :attempt END;

-- name: make_hot_table$
SELECT make_hot_table(:version::uuid, :dataset::uuid, :columns::jsonb, :key::text[]);

-- name: lock_tables
-- In one order, so that two writers never wait for each other.
SELECT dataset_version, first_block, last_block, announced_to, writer_task, writer_attempt
  FROM hot_tables WHERE dataset_version = ANY(:versions) ORDER BY dataset_version FOR UPDATE;

-- name: take_over!
UPDATE hot_tables SET writer_task = :task_id, writer_attempt = :attempt
 WHERE dataset_version = ANY(:versions);

-- name: origin$
SELECT min(origin_block) FROM hot_tables WHERE dataset_version = ANY(:versions);

-- name: hashes
SELECT block_number, block_hash FROM chain_hashes
 WHERE dataset_version = :version AND block_number BETWEEN :start AND :end
 ORDER BY block_number DESC;

-- name: changed_from
-- The lowest block from :start on whose hash is not what it was; one that is new or gone counts.
SELECT v AS dataset_version, (
       SELECT min(block_number)
         FROM (SELECT block_number, block_hash FROM chain_hashes
                WHERE dataset_version = v AND block_number >= :start) c
         FULL JOIN unnest(:numbers::bigint[], :hashes::bytea[]) AS f (block_number, block_hash)
              USING (block_number)
        WHERE c.block_hash IS DISTINCT FROM f.block_hash) AS changed_from
  FROM unnest(:versions::uuid[]) AS v;

-- name: forget_hashes!
DELETE FROM chain_hashes
 WHERE dataset_version = ANY(:versions) AND block_number >= :start;

-- name: forget_old_hashes!
-- Of blocks that have rows none is forgotten: without it they could not be told to be final.
DELETE FROM chain_hashes c USING hot_tables h
 WHERE h.dataset_version = ANY(:versions) AND c.dataset_version = h.dataset_version
   AND c.block_number < least(h.first_block, h.last_block - :keep + 1);

-- name: add_hashes!
INSERT INTO chain_hashes (dataset_version, block_number, block_hash)
SELECT v, f.block_number, f.block_hash
  FROM unnest(:versions::uuid[]) AS v,
       unnest(:numbers::bigint[], :hashes::bytea[]) AS f (block_number, block_hash);

-- name: owe!
INSERT INTO hot_outbox (dataset_version, kind, "start", "end", reason)
SELECT v, CASE WHEN again THEN 'invalidation' ELSE 'event' END, first, last, :reason
  FROM unnest(:versions::uuid[], :again::boolean[], :first::bigint[], :last::bigint[])
       WITH ORDINALITY AS o (v, again, first, last, n)
 ORDER BY n;

-- name: move_extents!
UPDATE hot_tables h
   SET first_block = e.first_block, last_block = e.last_block, announced_to = e.announced_to,
       origin_block = least(h.origin_block, e.first_block)
  FROM unnest(:versions::uuid[], :first::bigint[], :last::bigint[], :announced::bigint[])
       AS e (dataset_version, first_block, last_block, announced_to)
 WHERE h.dataset_version = e.dataset_version;

-- name: sizes
-- Rows as they were written and deleted; after a crash, which forgets that, as of the last vacuum.
SELECT h.dataset_version, h.first_block,
       coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), greatest(c.reltuples, 0))::bigint AS rows
  FROM hot_tables h
  JOIN pg_class c ON c.oid = to_regclass('public.dataset_' || replace(h.dataset_version::text, '-', ''))
 WHERE h.dataset_version = ANY(:versions);

-- name: pending
SELECT id, dataset_version, kind, "start", "end", reason FROM hot_outbox
 WHERE dataset_version = ANY(:versions) ORDER BY seq;

-- name: sent!
DELETE FROM hot_outbox WHERE id = ANY(:ids);

-- name: make_staging_table$
SELECT make_staging_table(:version::uuid, :task_id::uuid, :attempt::integer);

-- name: differing_hash$
-- The lowest block to be trimmed whose hash is not the expected one, or is not known.
SELECT min(b.block_number)
  FROM hot_tables h
  CROSS JOIN LATERAL generate_series(h.first_block, :up_to::bigint) AS b (block_number)
  LEFT JOIN chain_hashes c
    ON c.dataset_version = h.dataset_version AND c.block_number = b.block_number
  LEFT JOIN unnest(:numbers::bigint[], :hashes::bytea[]) AS e (block_number, block_hash)
    ON e.block_number = b.block_number
 WHERE h.dataset_version = ANY(:versions)
   AND (c.block_hash = e.block_hash) IS NOT TRUE;

-- name: raise_first_block!
UPDATE hot_tables SET first_block = :up_to::bigint + 1
 WHERE dataset_version = ANY(:versions) AND first_block <= :up_to;
