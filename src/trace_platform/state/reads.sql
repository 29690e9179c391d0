-- name: of_generations
-- What is read without being woken by it.
SELECT generation_id, input_index, dataset_uuid, dataset_version, filter FROM reads
 WHERE generation_id = ANY(:generation_ids) ORDER BY generation_id, input_index;

-- name: tables
-- Of these generations of datasets those that are tables, and where the part of them lies that has
-- left the table: another dataset of the same DAG.
SELECT v.version, v.table_start, c.uuid AS cold_uuid, c.current_version AS cold_version
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
  LEFT JOIN datasets c ON c.org_id = d.org_id AND c.dag_name = d.dag_name
                      AND c.job_name = d.metadata->'cold'->>'job'
                      AND c.output_index = (d.metadata->'cold'->>'output')::integer
 WHERE v.version = ANY(:versions) AND v.location LIKE 'postgres_table:%';

-- name: files_of
-- What a dataset holds of a range, and what has no range; without a range all that it holds.
SELECT g.n, p.location, p.files
  FROM unnest(:ns::integer[], :versions::uuid[], :starts::bigint[], :ends::bigint[])
       AS g (n, version, first, last)
  JOIN partition_versions p ON p.dataset_version = g.version AND p.superseded_at IS NULL
 WHERE g.first IS NULL OR p.range_start IS NULL
    OR (p.range_start <= g.last AND p.range_end >= g.first)
 ORDER BY g.n, p.range_start, p.partition_key;

-- name: cold_version$
-- The generation of a cold part that holds something of a range: of several the reader's own, else the
-- current one, else the newest. What has left the table may be in any of them.
SELECT v.version FROM dataset_versions v
  JOIN generations g ON g.id = v.generation_id AND g.purged_at IS NULL
 WHERE v.dataset_uuid = :cold_uuid
   AND EXISTS (SELECT FROM partition_versions p
                WHERE p.dataset_version = v.version AND p.superseded_at IS NULL
                  AND (:start::bigint IS NULL OR p.range_start <= :end AND p.range_end >= :start))
 ORDER BY v.version = ANY(:own::uuid[]) DESC, v.version = :current DESC, g.created_at DESC LIMIT 1;
