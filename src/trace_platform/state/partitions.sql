-- name: touched
-- The current ranges of a version are disjoint: if any reaches into ours, then the last of those that
-- do not start after it.
SELECT DISTINCT g.n
  FROM unnest(:ns::integer[], :versions::uuid[], :starts::bigint[], :ends::bigint[])
       AS g (n, version, first, last)
 CROSS JOIN LATERAL (
       SELECT range_end FROM partition_versions
        WHERE dataset_version = g.version AND superseded_at IS NULL AND range_start <= g.last
        ORDER BY range_start DESC LIMIT 1) p
 WHERE p.range_end >= g.first
 ORDER BY g.n;

-- name: within
SELECT partition_key, range_start, range_end, made_of, knows FROM partition_versions
 WHERE dataset_version = :version AND superseded_at IS NULL
   AND range_start <= :end AND range_end >= :start
   -- Disjoint ranges: nothing before the last one that starts no later can reach ours.
   AND range_start >= coalesce((
       SELECT range_start FROM partition_versions
        WHERE dataset_version = :version AND superseded_at IS NULL AND range_start <= :start
        ORDER BY range_start DESC LIMIT 1), :start)
 ORDER BY range_start;

-- name: of_key
SELECT partition_key, range_start, range_end, made_of, knows FROM partition_versions
 WHERE dataset_version = :version AND partition_key = :key AND superseded_at IS NULL;

-- name: of_keys
-- Those that have no range and were made of some of these partitions of inputs, or have such a name.
SELECT partition_key, range_start, range_end, made_of, knows FROM partition_versions
 WHERE dataset_version = :version AND superseded_at IS NULL AND range_start IS NULL
   AND made_of @> ANY(:reads::jsonb[])
UNION
SELECT partition_key, range_start, range_end, made_of, knows FROM partition_versions
 WHERE dataset_version = :version AND superseded_at IS NULL AND range_start IS NULL
   AND partition_key = ANY(:names)
 ORDER BY partition_key;

-- name: supersede_keys!
UPDATE partition_versions SET superseded_at = :moment
 WHERE dataset_version = :version AND partition_key = ANY(:keys) AND superseded_at IS NULL;

-- name: supersede_within!
UPDATE partition_versions SET superseded_at = :moment
 WHERE dataset_version = :version AND superseded_at IS NULL
   AND range_start BETWEEN :start AND :end AND range_end <= :end;

-- name: insert$
INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, range_start,
    range_end, location, files, row_count, byte_count, schema_hash, task_id, attempt, made_of,
    knows, committed_at)
VALUES (:dataset_uuid, :version, :key, :start, :end, :location, :files, :row_count, :byte_count,
    :schema_hash, :task_id, :attempt, :made_of, :knows, :moment)
RETURNING id;

-- name: still_current
-- Of these places those that readers of their generations are given.
SELECT DISTINCT location FROM partition_versions
 WHERE location = ANY(:locations) AND superseded_at IS NULL;
