-- Partitions that gave way to newer ones of their generation: how long their files stay.

-- name: retire!
-- What gave way too long ago, and of each partition what is older than the newest so many.
UPDATE partition_versions SET retired_at = clock_timestamp()
 WHERE id = ANY(ARRAY(
       SELECT id FROM (
              SELECT id, superseded_at,
                     row_number() OVER (PARTITION BY dataset_version, partition_key
                                        ORDER BY superseded_at DESC, id DESC) AS place
                FROM partition_versions
               WHERE superseded_at IS NOT NULL AND retired_at IS NULL) p
        WHERE superseded_at < (SELECT clock_timestamp() - make_interval(secs => :keep_days * 86400))
           OR place > :keep_versions
        ORDER BY superseded_at LIMIT :limit));

-- name: oldest_reader^
-- The attempt that started first of those that may still read files: it runs, or went silent and may go on.
-- The run of a source is given no files, and may last for ever.
SELECT id AS task_id, started_at FROM (
       SELECT id, started_at FROM tasks WHERE status = 'Running' AND dedupe_key <> 'run'
       UNION ALL
       SELECT t.id, t.started_at FROM leftovers l
         JOIN tasks t ON t.id = l.task_id AND t.attempt = l.attempt
        WHERE t.reaped_at IS NOT NULL AND t.dedupe_key <> 'run') r
 ORDER BY started_at LIMIT 1;

-- name: due
-- Retired so long ago that every query that was given it has ended, and every attempt.
SELECT id, location, files FROM partition_versions
 WHERE retired_at < least((SELECT clock_timestamp() - make_interval(secs => :grace_s)),
                          :oldest_reader::timestamptz)
   AND files_deleted_at IS NULL
 ORDER BY retired_at LIMIT :limit;

-- name: kept_at
-- What else lies at these places and stays.
SELECT location, files FROM partition_versions
 WHERE location = ANY(:locations::text[]) AND id <> ALL(:ids::uuid[]) AND files_deleted_at IS NULL;

-- name: mark_deleted!
UPDATE partition_versions SET files_deleted_at = clock_timestamp()
 WHERE id = ANY(:ids::uuid[]) AND files_deleted_at IS NULL;

-- name: bytes
-- Of generations that are there: what readers see, what gave way and still has its files, what of that an
-- attempt that runs may be reading (pinned), and what waits for its files to be deleted.
SELECT v.version AS dataset_version, v.dataset_uuid, d.name, d.dag_name, d.job_name, d.output_index,
       v.version = d.current_version AS current, b.*
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
  JOIN generations g ON g.id = v.generation_id AND g.purged_at IS NULL
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(byte_count) FILTER (WHERE superseded_at IS NULL), 0)::bigint AS live_bytes,
              coalesce(sum(byte_count) FILTER (WHERE superseded_at IS NOT NULL), 0)::bigint
                  AS superseded_bytes,
              coalesce(sum(byte_count) FILTER (
                  WHERE superseded_at IS NOT NULL
                    AND coalesce(retired_at, superseded_at) >= :oldest_reader::timestamptz), 0)::bigint
                  AS pinned_bytes,
              coalesce(sum(byte_count) FILTER (WHERE retired_at IS NOT NULL), 0)::bigint
                  AS retired_bytes,
              count(*) FILTER (WHERE superseded_at IS NOT NULL) AS superseded_partitions,
              min(superseded_at) FILTER (WHERE retired_at IS NULL) AS oldest_superseded_at
         FROM partition_versions
        WHERE dataset_version = v.version AND files_deleted_at IS NULL) b
 WHERE d.org_id = :org_id
   AND (:dataset_versions::uuid[] IS NULL OR v.version = ANY(:dataset_versions::uuid[]))
 ORDER BY d.name NULLS LAST, d.dag_name, d.job_name, d.output_index, v.created_at DESC;

-- name: lost_moments
-- Which of these generations cannot be read as they were at the moment beside them: a file of then is gone,
-- or goes.
SELECT a.n FROM unnest(:ns::integer[], :versions::uuid[], :moments::timestamptz[])
                AS a (n, version, moment)
 WHERE EXISTS (SELECT FROM dataset_versions v WHERE v.version = a.version AND a.moment < v.past_from)
    OR EXISTS (SELECT FROM partition_versions p
                WHERE p.dataset_version = a.version AND p.superseded_at > a.moment
                  AND p.committed_at <= a.moment AND p.retired_at IS NOT NULL);
