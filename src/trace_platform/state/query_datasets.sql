-- What queries read: which generation a name, a pin or a moment stands for, and the files of it.

-- name: moments
-- The time, once for each deploy whose id, or whose version, begins as asked, and at least once; the
-- latest last.
SELECT clock_timestamp() AS now, b.*
  FROM (VALUES (true)) AS always (is_there)
  LEFT JOIN (SELECT a.pin, d.id, d.to_version, d.status, d.ended_at
               FROM unnest(:pins::text[]) AS a (pin)
               JOIN deploys d ON d.org_id = :org_id
                             AND (starts_with(d.id::text, a.pin)
                                  OR starts_with(d.to_version::text, a.pin))) b ON true
 ORDER BY b.ended_at, b.id;

-- name: pinned
-- The generations that a pin may mean: of the dataset that has the name, and of those that had it in
-- any version of a DAG. What was read once can be read again, whatever has the name by now.
SELECT a.n, v.version, v.dataset_uuid = d.uuid IS TRUE AS has_name
  FROM unnest(:ns::integer[], :names::text[], :pins::text[]) AS a (n, name, pin)
  LEFT JOIN datasets d ON d.org_id = :org_id AND d.name = a.name
 CROSS JOIN LATERAL (
       SELECT version, dataset_uuid FROM dataset_versions
        WHERE dataset_uuid = ANY(ARRAY(
              SELECT d.uuid
               UNION
              SELECT p.dataset_uuid FROM dag_version_publishes p
                JOIN dag_versions w ON w.id = p.dag_version_id
               WHERE p.name = a.name AND w.org_id = :org_id))
          AND (starts_with(version::text, a.pin) OR generation_id::text = a.pin)) v;

-- name: current_at
-- The generation that readers of the name saw at a moment: of each DAG the version that was active
-- then, and of those the one that published it. A dataset of several producers has one generation
-- for ever.
SELECT a.n, coalesce(
           (SELECT v.version FROM dataset_versions v
             WHERE v.dataset_uuid = p.dataset_uuid
               AND EXISTS (SELECT FROM dag_version_jobs j
                            WHERE j.generation_id = v.generation_id
                              AND j.dag_version_id = p.dag_version_id)),
           (SELECT current_version FROM datasets
             WHERE uuid = p.dataset_uuid AND starts_with(job_name, '@'))) AS version
  FROM unnest(:ns::integer[], :names::text[], :moments::timestamptz[]) AS a (n, name, moment)
 CROSS JOIN active_dags k
 CROSS JOIN LATERAL (
       SELECT to_version FROM deploys
        WHERE org_id = k.org_id AND dag_name = k.dag_name AND status = 'CutOver'
          AND ended_at <= a.moment
        ORDER BY ended_at DESC, id DESC LIMIT 1) b
  JOIN dag_version_publishes p ON p.dag_version_id = b.to_version AND p.name = a.name
 WHERE k.org_id = :org_id;

-- name: published_since$
-- When the name was published for the first time.
SELECT min(b.ended_at) FROM deploys b
 WHERE b.org_id = :org_id AND b.status = 'CutOver'
   AND b.to_version = ANY(ARRAY(SELECT dag_version_id FROM dag_version_publishes
                                 WHERE name = :name));

-- name: described
-- What these generations of datasets are, and those that readers of these names see. `pii` of the one
-- that readers of a name see is what its version says; of any other, all that was ever said of the
-- dataset: an older generation may have columns that the newer one knows nothing of. `present_columns`
-- and `present_pii` are what readers of its name see now, and what is said of that.
SELECT v.version, v.version AS files_version, d.uuid AS dataset_uuid, d.name, d.dag_name, d.job_name,
       d.output_index, d.current_version = v.version AS is_current, v.columns, g.created_at, g.purged_at,
       v.location LIKE 'postgres_table:%' IS TRUE AS is_table, v.row_count AS table_rows,
       v.table_columns, coalesce(c.table_columns, c.columns) AS present_columns,
       CASE WHEN d.name IS NOT NULL THEN coalesce(d.metadata->'pii', '[]') END AS present_pii,
       CASE WHEN d.name IS NOT NULL AND d.current_version = v.version
            THEN coalesce(d.metadata->'pii', '[]')
            ELSE (SELECT coalesce(jsonb_agg(DISTINCT said ORDER BY said), '[]')
                    FROM (SELECT d.metadata UNION ALL
                          SELECT p.metadata FROM dag_version_publishes p
                           WHERE p.dataset_uuid = d.uuid) m,
                         jsonb_array_elements_text(m.metadata->'pii') said)
       END AS pii
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
  JOIN dataset_versions c ON c.version = d.current_version
  JOIN generations g ON g.id = v.generation_id
 WHERE d.org_id = :org_id
   AND v.version = ANY(:versions::uuid[] || ARRAY(
       SELECT current_version FROM datasets WHERE org_id = :org_id AND name = ANY(:names::text[])));

-- name: columns_of_version
-- Of what a version of a DAG publishes as files: its columns, where something is committed. A table
-- may have more than was ever compacted.
SELECT p.name, ARRAY(SELECT c->>'name' FROM jsonb_array_elements(v.columns) c) AS columns
  FROM dag_version_publishes p
  JOIN dataset_versions v ON v.dataset_uuid = p.dataset_uuid AND v.columns IS NOT NULL
                         AND v.location LIKE 'postgres_table:%' IS NOT TRUE
 WHERE p.dag_version_id = :dag_version_id
   AND EXISTS (SELECT FROM dag_version_jobs j
                WHERE j.generation_id = v.generation_id AND j.dag_version_id = p.dag_version_id);

-- name: committed_columns
-- Of the outputs of a version's jobs: their columns, as far as commits or the writer of a table said them.
SELECT d.job_name, d.output_index, coalesce(v.table_columns, v.columns) AS columns
  FROM dag_version_jobs j
  JOIN dataset_versions v ON v.generation_id = j.generation_id
  JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE j.dag_version_id = :dag_version_id AND coalesce(v.table_columns, v.columns) IS NOT NULL;

-- name: cold_parts
-- Of generations that are tables: the generation with what has left the table, as the version of the
-- DAG has it that is active, else the last one that was and had this table.
SELECT v.version, e.uuid AS cold_uuid, o.version AS cold_version, o.columns, g.purged_at
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
 CROSS JOIN LATERAL (
       SELECT j.dag_version_id, p.metadata->'cold' AS ref
         FROM dag_version_jobs j
         JOIN dag_version_publishes p ON p.dag_version_id = j.dag_version_id
                                     AND p.dataset_uuid = v.dataset_uuid
        WHERE j.generation_id = v.generation_id
        ORDER BY EXISTS (SELECT FROM active_dags k
                          WHERE k.org_id = d.org_id AND k.dag_name = d.dag_name
                            AND k.dag_version_id = j.dag_version_id) DESC,
                 (SELECT b.ended_at FROM deploys b
                   WHERE b.org_id = d.org_id AND b.dag_name = d.dag_name
                     AND b.status = 'CutOver' AND b.to_version = j.dag_version_id
                   ORDER BY b.ended_at DESC LIMIT 1) DESC NULLS LAST
        LIMIT 1) u
  JOIN datasets e ON e.org_id = d.org_id AND e.dag_name = d.dag_name
                 AND e.job_name = u.ref->>'job' AND e.output_index = (u.ref->>'output')::integer
  JOIN dataset_versions o ON o.dataset_uuid = e.uuid
                         AND EXISTS (SELECT FROM dag_version_jobs j
                                      WHERE j.generation_id = o.generation_id
                                        AND j.dag_version_id = u.dag_version_id)
  JOIN generations g ON g.id = o.generation_id
 WHERE v.version = ANY(:versions::uuid[]) AND v.location LIKE 'postgres_table:%';

-- name: held
-- What these generations hold, now or at a moment: their files, in order, one on a line (half the
-- time that JSON takes, for thousands of them). An index for what is current, and one for what gave
-- way since the moment.
SELECT a.n, p.row_count, p.mixed, p.schema_hash, p.files
  FROM unnest(:ns::integer[], :versions::uuid[], :moments::timestamptz[]) AS a (n, version, moment)
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(q.row_count), 0)::bigint AS row_count,
              coalesce(min(q.schema_hash COLLATE "C") <> max(q.schema_hash COLLATE "C"), false)
                  AS mixed,
              min(q.schema_hash COLLATE "C") AS schema_hash,
              string_agg(CASE WHEN jsonb_array_length(q.files) = 1
                              THEN q.location || (q.files->0->>'name')
                              ELSE (SELECT string_agg(q.location || (f->>'name'), E'\n')
                                      FROM jsonb_array_elements(q.files) f) END,
                         E'\n' ORDER BY q.range_start, q.partition_key COLLATE "C")
                  FILTER (WHERE :files) AS files
         FROM (SELECT * FROM partition_versions
                WHERE dataset_version = a.version AND superseded_at IS NULL
                  AND committed_at <= coalesce(a.moment, 'infinity')
               UNION ALL
               SELECT * FROM partition_versions
                WHERE dataset_version = a.version AND superseded_at > a.moment
                  AND committed_at <= a.moment) q) p;

-- name: columns_of_generations
-- What was committed of the generations of a DAG that have these fingerprints: by job and output.
SELECT g.job_name, d.output_index, coalesce(v.table_columns, v.columns) AS columns
  FROM unnest(:jobs::text[], :fingerprints::text[]) AS a (job, fingerprint)
  JOIN generations g ON g.org_id = :org_id AND g.dag_name = :dag_name AND g.job_name = a.job
                    AND g.fingerprint = a.fingerprint AND g.purged_at IS NULL
  JOIN dataset_versions v ON v.generation_id = g.id
  JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE coalesce(v.table_columns, v.columns) IS NOT NULL;
