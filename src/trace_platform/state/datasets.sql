-- name: ids_of_dag
SELECT job_name, output_index, uuid FROM datasets
 WHERE org_id = :org_id AND dag_name = :dag_name;

-- name: lost_events
-- Current partitions whose event is not on record, by whatever accident.
SELECT d.org_id, p.dataset_uuid, p.dataset_version, p.partition_key, p.range_start AS start,
       p.range_end AS "end", p.id AS materialisation, p.task_id, p.attempt
  FROM partition_versions p
  JOIN datasets d ON d.uuid = p.dataset_uuid AND d.current_version = p.dataset_version
 WHERE p.superseded_at IS NULL
   AND NOT EXISTS (SELECT FROM events e
                    WHERE e.dataset_version = p.dataset_version
                      AND e.identity = 'partition:' || p.partition_key || '@' || p.id)
 LIMIT :limit;

-- name: outputs_of_job
SELECT output_index, uuid AS dataset_uuid, current_version AS dataset_version
  FROM datasets
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = :job_name
 ORDER BY output_index;

-- name: unpublish!
-- Touches only what changes: a new name locks out every commit to the dataset until the deploy ends.
UPDATE datasets d SET name = NULL, metadata = '{}'
 WHERE d.org_id = :org_id AND d.dag_name = :dag_name AND d.name IS NOT NULL
   AND NOT EXISTS (SELECT FROM unnest(:names::text[], :uuids::uuid[]) AS keep (name, uuid)
                    WHERE keep.name = d.name AND keep.uuid = d.uuid);

-- name: publish!
UPDATE datasets SET name = :name, metadata = :metadata
 WHERE uuid = :dataset_uuid AND (name IS DISTINCT FROM :name OR metadata <> :metadata);

-- name: point_at
-- All pointers of a version in one statement; those that moved come back.
UPDATE datasets d SET current_version = v.version
  FROM dataset_versions v
 WHERE v.generation_id = ANY(:generation_ids) AND d.uuid = v.dataset_uuid
   AND d.current_version <> v.version
RETURNING d.uuid, v.version;

-- name: current_versions
SELECT uuid, current_version FROM datasets WHERE uuid = ANY(:uuids);

-- name: readers_by_name
-- Who of other DAGs reads one of these names, or will once what is built takes over.
SELECT DISTINCT e.dataset_name, j.dag_name, j.name AS job_name
  FROM (SELECT dag_name, dag_version_id FROM active_dags WHERE org_id = :org_id
        UNION ALL
        SELECT dag_name, to_version FROM deploys
         WHERE org_id = :org_id AND status = 'Building') a (dag_name, dag_version_id)
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
  JOIN input_edges e ON e.job_id = j.id
 WHERE a.dag_name <> :dag_name AND e.dataset_name = ANY(:names)
 ORDER BY e.dataset_name, j.dag_name, j.name;

-- name: names_of_dag
SELECT name, uuid FROM datasets WHERE org_id = :org_id AND dag_name = :dag_name AND name IS NOT NULL;

-- name: find_published^
SELECT uuid, dag_name, job_name FROM datasets WHERE org_id = :org_id AND name = :name;

-- name: ensure_shared$
-- A dataset of several producers is none's output: it has a place and a generation of its own.
WITH generation AS (
    INSERT INTO generations (org_id, dag_name, job_name, fingerprint, built_at)
    VALUES (:org_id, :dag_name, '@' || :name, 'shared', clock_timestamp())
        ON CONFLICT (org_id, dag_name, job_name, fingerprint) WHERE purged_at IS NULL DO NOTHING
    RETURNING id
), made AS (
    INSERT INTO datasets (org_id, dag_name, job_name, output_index, current_version)
    SELECT :org_id, :dag_name, '@' || :name, 0, gen_random_uuid() FROM generation
        -- Its generation was purged while its DAG was removed.
        ON CONFLICT (org_id, dag_name, job_name, output_index)
        DO UPDATE SET current_version = excluded.current_version
    RETURNING uuid, current_version
), version AS (
    INSERT INTO dataset_versions (version, dataset_uuid, generation_id)
    SELECT m.current_version, m.uuid, g.id FROM made m, generation g
)
SELECT uuid FROM made
UNION
SELECT uuid FROM datasets
 WHERE org_id = :org_id AND dag_name = :dag_name AND job_name = '@' || :name AND output_index = 0;

-- name: unshare!
DELETE FROM shared_outputs WHERE org_id = :org_id AND dag_name = :dag_name;

-- name: share!
-- The producers of a DAG's datasets that several write, as its active version says.
INSERT INTO shared_outputs (org_id, dag_name, job_name, output_index, dataset_uuid)
SELECT :org_id, :dag_name, p->>'job', (p->>'output')::integer, v.dataset_uuid
  FROM dag_version_publishes v
 CROSS JOIN LATERAL jsonb_array_elements(v.metadata->'producers') p
 WHERE v.dag_version_id = :dag_version_id;

-- name: names_taken
-- Of these names, those that another DAG publishes, or will once what it builds takes over.
SELECT n.name, coalesce(d.dag_name, b.dag_name) AS dag_name
  FROM unnest(:names::text[]) AS n (name)
  LEFT JOIN datasets d ON d.org_id = :org_id AND d.name = n.name AND d.dag_name <> :dag_name
  LEFT JOIN (deploys b JOIN dag_version_publishes p ON p.dag_version_id = b.to_version)
    ON b.org_id = :org_id AND b.dag_name <> :dag_name AND b.status = 'Building' AND p.name = n.name
 WHERE d.uuid IS NOT NULL OR b.id IS NOT NULL
 ORDER BY n.name LIMIT 1;

-- name: lock_generations
-- Commits to one generation take turns, so that what they check stays true until they write.
SELECT version, columns, schema_hash FROM dataset_versions
 WHERE version = ANY(:versions) ORDER BY version FOR NO KEY UPDATE;

-- name: declared
-- Of these generations: what those versions of the DAG declare of them that are read or being built.
SELECT v.version, p.name, p.metadata->'schema' AS schema, p.metadata->>'storage' AS storage
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
 CROSS JOIN LATERAL (
       SELECT dag_version_id FROM active_dags WHERE org_id = d.org_id AND dag_name = d.dag_name
        UNION
       SELECT to_version FROM deploys
        WHERE org_id = d.org_id AND dag_name = d.dag_name AND status = 'Building') u
  JOIN dag_version_jobs j ON j.dag_version_id = u.dag_version_id AND j.generation_id = v.generation_id
  JOIN dag_version_publishes p ON p.dag_version_id = u.dag_version_id
                              AND p.dataset_uuid = v.dataset_uuid
 WHERE v.version = ANY(:versions::uuid[])
   AND (p.metadata ? 'schema' OR p.metadata ? 'storage')
 ORDER BY v.version, p.name;

-- name: moment$
SELECT clock_timestamp();

-- name: set_columns!
UPDATE dataset_versions SET columns = :columns, schema_hash = :schema_hash
 WHERE version = :dataset_version;

-- name: say_columns!
-- Of the first outputs of these generations, before anything is committed to them.
UPDATE dataset_versions v SET columns = :columns, schema_hash = :schema_hash
  FROM datasets d
 WHERE d.uuid = v.dataset_uuid AND d.output_index = 0
   AND v.generation_id = ANY(:generation_ids::uuid[]) AND v.columns IS NULL;

-- name: partition_files
-- In order, ranges first, after the last one that was shown.
SELECT partition_key, range_start AS start, range_end AS "end", location, files, row_count AS rows,
       byte_count AS bytes, schema_hash, task_id
  FROM (
    (SELECT *, 0 AS part FROM partition_versions
      WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND :after_key::text IS NULL
        AND range_start > coalesce(:after_start::bigint, -1)
      ORDER BY range_start LIMIT :limit)
    UNION ALL
    (SELECT *, 1 AS part FROM partition_versions
      WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND range_start IS NULL
        AND partition_key > coalesce(:after_key::text, '')
      ORDER BY partition_key LIMIT :limit)) p
 ORDER BY part, range_start, partition_key LIMIT :limit;

-- name: count_partitions$
SELECT count(*) FROM partition_versions
 WHERE dataset_version = :dataset_version AND superseded_at IS NULL;

-- name: is_held_at$
SELECT true FROM partition_versions WHERE location = :location AND superseded_at IS NULL;

-- name: insert_delivery$
-- Made by no task. Of two that deliver the same, one finds it there.
INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key, location, files,
    row_count, byte_count, schema_hash)
VALUES (:dataset_uuid, :dataset_version, :partition_key, :location, :files, 1, :byte_count,
    :schema_hash)
    ON CONFLICT (dataset_version, partition_key) WHERE superseded_at IS NULL DO NOTHING
RETURNING id;

-- name: files_of_keys
-- What holds each of the partitions that are no ranges.
SELECT g.n, p.location, p.files
  FROM unnest(:ns::integer[], :versions::uuid[], :keys::text[]) AS g (n, version, key)
 CROSS JOIN LATERAL (
    SELECT location, files FROM partition_versions
     WHERE dataset_version = g.version AND partition_key = g.key AND superseded_at IS NULL LIMIT 1) p
 ORDER BY g.n;

-- name: files_within
-- What holds each of the ranges now: the partition itself, or what took its place since.
SELECT g.n, p.location, p.files
  FROM unnest(:ns::integer[], :versions::uuid[], :starts::bigint[], :ends::bigint[])
       AS g (n, version, first, last)
 CROSS JOIN LATERAL (
    SELECT location, files, range_start FROM partition_versions
     WHERE dataset_version = g.version AND superseded_at IS NULL
       AND range_start <= g.last AND range_end >= g.first
       -- Disjoint ranges: nothing before the last one that starts no later than ours can reach it.
       AND range_start >= coalesce((
           SELECT range_start FROM partition_versions
            WHERE dataset_version = g.version AND superseded_at IS NULL AND range_start <= g.first
            ORDER BY range_start DESC LIMIT 1), g.first)) p
 ORDER BY g.n, p.range_start;

-- name: advance_cursor^
-- A table's cursor never goes back: a late, smaller one leaves it where it is.
UPDATE dataset_versions
   SET location = :location, cursor = greatest(cursor, :cursor), row_count = :row_count,
       rows_estimated = :rows_estimated, table_start = coalesce(:start, table_start),
       table_columns = coalesce(:columns, table_columns)
 WHERE version = :dataset_version AND dataset_uuid = :dataset_uuid
RETURNING cursor;

-- name: published
SELECT d.name, d.uuid AS dataset_uuid, d.current_version AS dataset_version, d.dag_name, d.job_name,
       count(p.id) AS partitions, coalesce(sum(p.row_count), 0)::bigint AS row_count,
       coalesce(sum(p.byte_count), 0)::bigint AS byte_count,
       min(p.range_start) AS first_block, max(p.range_end) AS last_block
  FROM datasets d
  LEFT JOIN partition_versions p
    ON p.dataset_version = d.current_version AND p.superseded_at IS NULL
 WHERE d.org_id = :org_id AND d.name IS NOT NULL
   AND (:dag_name::text IS NULL OR d.dag_name = :dag_name)
 GROUP BY d.uuid ORDER BY d.name;

-- name: find^
-- A published name, a uuid, or DAG.JOB with an output's index (0 when there is none).
SELECT uuid, dag_name, job_name, output_index, name, current_version FROM datasets
 WHERE org_id = :org_id
   AND (name = :named OR uuid::text = :named OR dag_name || '.' || job_name = :named AND output_index = 0
        OR dag_name || '.' || job_name || '.' || output_index = :named)
 ORDER BY name = :named DESC NULLS LAST LIMIT 1;

-- name: names
SELECT name FROM datasets WHERE org_id = :org_id AND name IS NOT NULL ORDER BY name LIMIT :limit;
