-- name: set_outputs!
UPDATE tasks SET outputs = :outputs WHERE id = :id;

-- name: current_partitions
SELECT id FROM (
    SELECT id, range_start, partition_key FROM partition_versions
     WHERE dataset_version = :dataset_version AND superseded_at IS NULL
       AND range_start <= :last::bigint AND range_end >= :first::bigint
       -- Disjoint ranges: nothing before the last one that starts no later than ours can reach it.
       AND range_start >= coalesce((
           SELECT range_start FROM partition_versions
            WHERE dataset_version = :dataset_version AND superseded_at IS NULL
              AND range_start <= :first::bigint
            ORDER BY range_start DESC LIMIT 1), :first::bigint)
    UNION ALL
    SELECT id, range_start, partition_key FROM partition_versions
     WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND range_start IS NULL
       AND partition_key = ANY(:keys::text[])
    UNION ALL
    SELECT id, range_start, partition_key FROM partition_versions
     WHERE :everything AND dataset_version = :dataset_version AND superseded_at IS NULL) p
 ORDER BY range_start, partition_key;

-- name: files_of_partitions
SELECT id, location, files FROM partition_versions WHERE id = ANY(:ids);
