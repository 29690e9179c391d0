-- name: input_versions
-- Which version of each input a generation is woken by now.
SELECT generation_id, input_index, dataset_uuid, dataset_version, filter FROM subscriptions
 WHERE generation_id = ANY(:generation_ids);

-- name: positions
SELECT version, position FROM dataset_versions WHERE version = ANY(:versions);

-- name: changed_since$
SELECT id FROM events
 WHERE dataset_version = :version AND range_end >= :start AND range_start <= :end
   AND position > :position AND (invalidation_id IS NOT NULL OR replaces)
 LIMIT 1;

-- name: set_inputs!
UPDATE tasks t SET inputs = g.inputs, knows = g.knows
  FROM unnest(:ids::uuid[], :inputs::jsonb[], :knows::jsonb[]) AS g (id, inputs, knows)
 WHERE t.id = g.id;

-- name: of_generations
-- What is read without being woken by it.
SELECT generation_id, input_index, dataset_uuid, dataset_version, filter FROM reads
 WHERE generation_id = ANY(:generation_ids) ORDER BY generation_id, input_index;

-- name: published_names
-- Of these datasets those that have a name.
SELECT uuid, name FROM datasets WHERE uuid = ANY(:uuids) AND name IS NOT NULL;

-- name: a_file_of
-- Of each of these generations of datasets a file that is current, whichever: it has its columns.
SELECT v.version, p.location || (p.files->0->>'name') AS uri
  FROM unnest(:versions::uuid[]) AS v (version)
 CROSS JOIN LATERAL (
    SELECT location, files FROM partition_versions
     WHERE dataset_version = v.version AND superseded_at IS NULL AND jsonb_array_length(files) > 0
     ORDER BY id DESC LIMIT 1) p;

-- name: edges_of_jobs
-- What each job's definition says of its inputs, in their order.
SELECT id, definition->'inputs' AS edges FROM jobs WHERE id = ANY(:job_ids);

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
 CROSS JOIN LATERAL (
    SELECT location, files, range_start, partition_key FROM partition_versions
     WHERE dataset_version = g.version AND superseded_at IS NULL
       AND range_start <= g.last AND range_end >= g.first
       -- Disjoint ranges: nothing before the last one that starts no later than ours can reach it.
       AND range_start >= coalesce((
           SELECT range_start FROM partition_versions
            WHERE dataset_version = g.version AND superseded_at IS NULL AND range_start <= g.first
            ORDER BY range_start DESC LIMIT 1), g.first)
    UNION ALL
    SELECT location, files, range_start, partition_key FROM partition_versions
     WHERE dataset_version = g.version AND superseded_at IS NULL AND range_start IS NULL
    UNION ALL
    SELECT location, files, range_start, partition_key FROM partition_versions
     WHERE g.first IS NULL
       AND dataset_version = g.version AND superseded_at IS NULL AND range_start IS NOT NULL) p
 ORDER BY g.n, p.range_start, p.partition_key;

-- name: leaving
-- Of a cold part what lies wholly between two blocks, the oldest first: as much as may leave its table
-- with one task.
SELECT g.n, p.location, p.files
  FROM unnest(:ns::integer[], :versions::uuid[], :starts::bigint[], :ends::bigint[])
       AS g (n, version, first, last)
 CROSS JOIN LATERAL (
    SELECT location, files, range_start FROM partition_versions
     WHERE dataset_version = g.version AND superseded_at IS NULL
       AND range_start <= g.last AND range_end BETWEEN g.first AND g.last
       AND range_start >= coalesce((
           SELECT range_start FROM partition_versions
            WHERE dataset_version = g.version AND superseded_at IS NULL AND range_start <= g.first
            ORDER BY range_start DESC LIMIT 1), g.first)
     ORDER BY range_start LIMIT :most) p
 ORDER BY g.n, p.range_start;

-- name: cold_version$
-- The generation of a cold part that holds something of a range: of several the reader's own, else the
-- current one, else the newest. What has left the table may be in any of them.
SELECT v.version FROM dataset_versions v
  JOIN generations g ON g.id = v.generation_id AND g.purged_at IS NULL
 WHERE v.dataset_uuid = :cold_uuid
   -- Disjoint ranges: if one reaches into ours, then the last that does not start after it.
   AND (SELECT :start::bigint IS NULL OR p.range_end >= :start FROM partition_versions p
         WHERE p.dataset_version = v.version AND p.superseded_at IS NULL
           AND p.range_start <= coalesce(:end::bigint, 9223372036854775807)
         ORDER BY p.range_start DESC LIMIT 1)
 ORDER BY v.version = ANY(:own::uuid[]) DESC, v.version = :current DESC, g.created_at DESC LIMIT 1;
