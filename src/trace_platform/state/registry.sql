-- The datasets as people see them. Everything but lineage and purging only reads.

-- name: jobs
-- Of the active versions: each job, the generation that it writes, and how it is woken.
SELECT a.dag_name, j.name AS job_name, v.generation_id, j.activation, j.priority
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id ORDER BY a.dag_name, j.created_at, j.name;

-- name: edges
-- Of the active versions: which dataset each job reads. A name is whoever has it now.
SELECT a.dag_name, j.name AS job_name, e.input_index,
       coalesce((SELECT uuid FROM datasets n WHERE n.org_id = a.org_id AND n.name = e.dataset_name),
                e.dataset_uuid) AS dataset_uuid
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
  JOIN input_edges e ON e.job_id = j.id
 WHERE a.org_id = :org_id ORDER BY a.dag_name, j.name, e.input_index;

-- name: datasets
-- Every dataset with its current generation and the newest sign of it: an event is recorded with
-- each commit. Where there was none, the generation began then.
SELECT d.uuid AS dataset_uuid, d.name, d.dag_name, d.job_name, d.output_index, d.metadata,
       d.current_version AS dataset_version, v.generation_id, v.location AS table_name, v.cursor,
       e.recorded_at AS newest_at,
       extract(epoch FROM clock_timestamp() - e.recorded_at)::float8 AS age_s,
       extract(epoch FROM clock_timestamp() - coalesce(e.recorded_at, g.built_at, g.created_at))::float8
           AS unchanged_s
  FROM datasets d
  JOIN dataset_versions v ON v.version = d.current_version
  JOIN generations g ON g.id = v.generation_id
  LEFT JOIN LATERAL (
       SELECT recorded_at FROM events
        -- As text: from the newest back by one index, not all that a generation ever had by two.
        WHERE dataset_uuid = d.uuid AND dataset_version::text = d.current_version::text
        ORDER BY id DESC LIMIT 1) e ON true
 WHERE d.org_id = :org_id ORDER BY d.name NULLS LAST, d.dag_name, d.job_name, d.output_index;

-- name: amounts
-- What these generations of datasets hold: a table its rows, and those of its cold part that have left
-- it. Of files that are not wholly below the table it is not known exactly how many have.
SELECT v.version AS dataset_version, g.files_version, p.partitions, p.bytes, p.rows AS file_rows,
       v.table_start, v.cursor,
       CASE WHEN v.location IS NULL THEN p.rows
            ELSE coalesce(v.row_count, 0) + coalesce(p.rows_below, 0) END AS rows,
       v.rows_estimated OR coalesce(p.cut, false) AS rows_estimated,
       least(p.first_block, v.table_start) AS first_block, greatest(p.last_block, v.cursor) AS last_block
  FROM unnest(:dataset_versions::uuid[], :files_versions::uuid[]) AS g (version, files_version)
  JOIN dataset_versions v ON v.version = g.version
 CROSS JOIN LATERAL (
       SELECT count(*) AS partitions, coalesce(sum(row_count), 0)::bigint AS rows,
              coalesce(sum(byte_count), 0)::bigint AS bytes, min(range_start) AS first_block,
              max(range_end) AS last_block,
              sum(row_count) FILTER (WHERE range_end < v.table_start)::bigint AS rows_below,
              bool_or(range_start < v.table_start AND range_end >= v.table_start) AS cut
         FROM partition_versions
        WHERE dataset_version = g.files_version AND superseded_at IS NULL) p;

-- name: gaps
-- Ranges between the first and the last block that no partition has, nor the table, and how many there
-- are.
SELECT range_end + 1 AS start, next_start - 1 AS "end", count(*) OVER () AS found
  FROM (SELECT range_end, lead(range_start) OVER (ORDER BY range_start) AS next_start
          FROM (SELECT range_start, range_end FROM partition_versions
                 WHERE dataset_version = :files_version AND superseded_at IS NULL
                   AND range_start < coalesce(:table_start::bigint, 9223372036854775807)
                UNION ALL
                SELECT :table_start::bigint, :table_end::bigint WHERE :table_start::bigint IS NOT NULL) r) p
 WHERE next_start > range_end + 1
 ORDER BY range_end LIMIT :limit;

-- name: ages
-- Published datasets that say how old they may be, and how old they are.
SELECT d.name, (d.metadata->>'max_age')::float8 AS max_age_s,
       extract(epoch FROM clock_timestamp() - coalesce(e.recorded_at, g.built_at, g.created_at))::float8
           AS age_s
  FROM datasets d
  JOIN dataset_versions v ON v.version = d.current_version
  JOIN generations g ON g.id = v.generation_id
  LEFT JOIN LATERAL (
       SELECT recorded_at FROM events
        -- As text: from the newest back by one index, not all that a generation ever had by two.
        WHERE dataset_uuid = d.uuid AND dataset_version::text = d.current_version::text
        ORDER BY id DESC LIMIT 1) e ON true
 WHERE d.org_id = :org_id AND d.name IS NOT NULL AND d.metadata ? 'max_age'
 ORDER BY d.name;

-- name: versions
-- The generations of a dataset, the newest first, and the versions of its DAG that use each.
SELECT v.version AS dataset_version, v.generation_id, g.created_at, g.built_at, g.purged_at,
       g.cleaned_at, v.version = d.current_version AS current,
       b.id IS NOT NULL AS building,
       ARRAY(SELECT u.dag_version_id FROM dag_version_jobs u
              WHERE u.generation_id = g.id ORDER BY u.dag_version_id) AS dag_versions,
       EXISTS (SELECT FROM dag_version_jobs u
                 JOIN active_dags a ON a.dag_version_id = u.dag_version_id
                WHERE u.generation_id = g.id) AS active
  FROM dataset_versions v
  JOIN datasets d ON d.uuid = v.dataset_uuid
  JOIN generations g ON g.id = v.generation_id
  LEFT JOIN deploys b ON b.org_id = d.org_id AND b.dag_name = d.dag_name AND b.status = 'Building'
                     AND g.id = ANY(b.building)
 WHERE v.dataset_uuid = :dataset_uuid
 ORDER BY g.created_at DESC, g.id DESC;

-- name: partitions
-- In order, ranges first, after the last one that was shown. Current ranges are disjoint: none
-- before the last one that starts no later than ours can reach into it.
SELECT partition_key, range_start AS start, range_end AS "end", row_count AS rows,
       byte_count AS bytes, jsonb_array_length(files) AS files, committed_at, task_id, attempt
  FROM (
    (SELECT *, 0 AS part FROM partition_versions
      WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND :after_key::text IS NULL
        AND range_start > coalesce(:after_start::bigint, -1)
        AND range_start <= coalesce(:last::bigint, range_start)
        AND range_end >= coalesce(:first::bigint, range_end)
        AND range_start >= coalesce((
            SELECT range_start FROM partition_versions
             WHERE dataset_version = :dataset_version AND superseded_at IS NULL
               AND range_start <= :first::bigint
             ORDER BY range_start DESC LIMIT 1), -1)
      ORDER BY range_start LIMIT :limit)
    UNION ALL
    (SELECT *, 1 AS part FROM partition_versions
      WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND range_start IS NULL
        AND :first::bigint IS NULL AND :last::bigint IS NULL
        AND partition_key > coalesce(:after_key::text, '')
      ORDER BY partition_key LIMIT :limit)) p
 ORDER BY part, range_start, partition_key LIMIT :limit;

-- name: partition_columns^
-- The same of a whole generation, an array for each column: a statement that makes no row of each.
SELECT coalesce(array_agg(range_start), '{}') AS start, coalesce(array_agg(range_end), '{}') AS "end",
       coalesce(array_agg(CASE WHEN range_start IS NULL THEN partition_key END), '{}') AS key,
       coalesce(array_agg(row_count), '{}') AS rows, coalesce(array_agg(byte_count), '{}') AS bytes,
       coalesce(array_agg(jsonb_array_length(files)), '{}') AS files,
       coalesce(array_agg((extract(epoch FROM committed_at) * 1000)::bigint), '{}') AS committed_ms,
       coalesce(array_agg(task_id), '{}') AS task_id, coalesce(array_agg(attempt), '{}') AS attempt
  FROM (
    SELECT * FROM (
      (SELECT *, 0 AS part FROM partition_versions
        WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND :after_key::text IS NULL
          AND range_start > coalesce(:after_start::bigint, -1)
        ORDER BY range_start LIMIT :limit)
      UNION ALL
      (SELECT *, 1 AS part FROM partition_versions
        WHERE dataset_version = :dataset_version AND superseded_at IS NULL AND range_start IS NULL
          AND partition_key > coalesce(:after_key::text, '')
        ORDER BY partition_key LIMIT :limit)) both_kinds
     ORDER BY part, range_start, partition_key LIMIT :limit) p;

-- name: building
SELECT dag_name, id AS deploy_id, to_version, building, started_at,
       extract(epoch FROM clock_timestamp() - started_at)::float8 AS age_s
  FROM deploys WHERE org_id = :org_id AND status = 'Building';

-- name: forget_column_lineage!
DELETE FROM column_lineage
 WHERE dataset_uuid IN (SELECT uuid FROM datasets WHERE org_id = :org_id AND dag_name = :dag_name);

-- name: add_column_lineage!
INSERT INTO column_lineage (dataset_uuid, column_name, input_dataset, input_column)
SELECT DISTINCT * FROM unnest(:dataset_uuids::uuid[], :columns::text[], :input_datasets::text[],
                              :input_columns::text[]);

-- name: column_lineage
SELECT l.dataset_uuid, l.column_name, l.input_dataset, l.input_column
  FROM column_lineage l JOIN datasets d ON d.uuid = l.dataset_uuid
 WHERE d.org_id = :org_id ORDER BY 1, 2, 3, 4;

-- name: outputs_of_generations
-- Every dataset that these generations are of.
SELECT v.generation_id, v.version AS dataset_version, v.dataset_uuid, v.location AS table_name,
       d.org_id, coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM dataset_versions v JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE v.generation_id = ANY(:generation_ids) ORDER BY v.generation_id, d.output_index;

-- name: files_of_generations
-- What lies in the object store of these, whether it is current or gave way: an index for each.
SELECT v.generation_id, coalesce(sum(p.row_count), 0)::bigint AS rows,
       coalesce(sum(p.byte_count), 0)::bigint AS bytes,
       coalesce(sum(p.files), 0)::bigint AS files, count(p.files) AS partitions
  FROM dataset_versions v
  LEFT JOIN LATERAL (
       SELECT row_count, byte_count, jsonb_array_length(files) AS files FROM partition_versions
        WHERE dataset_version = v.version AND superseded_at IS NULL
        UNION ALL
       SELECT row_count, byte_count, jsonb_array_length(files) AS files FROM partition_versions
        WHERE dataset_version = v.version AND superseded_at IS NOT NULL
          AND files_deleted_at IS NULL) p ON true
 WHERE v.generation_id = ANY(:generation_ids) GROUP BY v.generation_id;

-- name: uses
-- Why these generations cannot go, one row for each reason.
-- Of a DAG that was removed nobody reads anything.
SELECT g.id AS generation_id, 'current' AS code, coalesce(d.name, d.dag_name || '.' || d.job_name
                                                           || '.' || d.output_index) AS said
  FROM generations g
  JOIN dataset_versions v ON v.generation_id = g.id
  JOIN datasets d ON d.current_version = v.version AND d.uuid = v.dataset_uuid
  JOIN active_dags a ON a.org_id = d.org_id AND a.dag_name = d.dag_name
 WHERE g.id = ANY(:generation_ids)
UNION ALL
SELECT u.generation_id, 'active', a.dag_name
  FROM dag_version_jobs u JOIN active_dags a ON a.dag_version_id = u.dag_version_id
 WHERE u.generation_id = ANY(:generation_ids)
UNION ALL
SELECT g.id, 'building', b.dag_name
  FROM unnest(:generation_ids::uuid[]) AS g (id)
  JOIN deploys b ON b.status = 'Building'
   AND (g.id = ANY(b.building) OR EXISTS (
        SELECT FROM dag_version_jobs u
         WHERE u.dag_version_id = b.to_version AND u.generation_id = g.id))
UNION ALL
SELECT v.generation_id, 'read', c.dag_name || '.' || c.job_name
  FROM dataset_versions v
  JOIN (SELECT dataset_version, generation_id FROM subscriptions
        UNION SELECT dataset_version, generation_id FROM reads) s ON s.dataset_version = v.version
  JOIN generations c ON c.id = s.generation_id
 WHERE v.generation_id = ANY(:generation_ids)
UNION ALL
-- What has left a table and lies in none of the files that readers see: a rollback of its cold part.
SELECT v.generation_id, 'cold', coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index)
  FROM dataset_versions v
  JOIN datasets c ON c.uuid = v.dataset_uuid AND c.current_version <> v.version
  JOIN datasets d ON d.org_id = c.org_id AND d.dag_name = c.dag_name
                 AND d.metadata->'cold'->>'job' = c.job_name
                 AND (d.metadata->'cold'->>'output')::integer = c.output_index
  JOIN dataset_versions t ON t.version = d.current_version
 WHERE v.generation_id = ANY(:generation_ids)
   AND NOT
       (SELECT coalesce(range_agg(int8range(q.range_start, q.range_end, '[]')), '{}')
          FROM partition_versions q
         WHERE q.dataset_version = c.current_version AND q.superseded_at IS NULL
           AND q.range_start < t.table_start)
       @> (SELECT coalesce(range_agg(int8range(p.range_start,
                                               least(p.range_end, t.table_start - 1), '[]')), '{}')
             FROM partition_versions p
            WHERE p.dataset_version = v.version AND p.superseded_at IS NULL
              AND p.range_start < t.table_start)
UNION ALL
SELECT v.generation_id, 'task', t.id::text
  FROM dataset_versions v
  JOIN live_tasks t ON t.generation_id::text = v.generation_id::text
                    OR t.inputs @> jsonb_build_array(jsonb_build_object('dataset_version', v.version))
 WHERE v.generation_id = ANY(:generation_ids)
 ORDER BY 1, 2, 3;

-- name: mark_purged!
UPDATE generations SET purged_at = clock_timestamp()
 WHERE id = ANY(:generation_ids) AND purged_at IS NULL;

-- name: delete_partitions!
WITH gone AS (
    DELETE FROM partition_versions
     WHERE superseded_at IS NOT NULL
       AND dataset_version = ANY(ARRAY(SELECT version FROM dataset_versions
                                        WHERE generation_id = ANY(:generation_ids)))
)
DELETE FROM partition_versions
 WHERE superseded_at IS NULL
   AND dataset_version = ANY(ARRAY(SELECT version FROM dataset_versions
                                    WHERE generation_id = ANY(:generation_ids)));

-- name: delete_loose_events!
-- What no partition stands for is kept for rebuilds from it, of which there can be none any more.
WITH gone AS (
    DELETE FROM events
     WHERE dataset_version = ANY(ARRAY(SELECT version FROM dataset_versions
                                        WHERE generation_id = ANY(:generation_ids)))
       AND materialisation IS NULL
    RETURNING id
)
DELETE FROM task_inputs WHERE event_id = ANY(ARRAY(SELECT id FROM gone));

-- name: disown_tasks!
-- Whatever a task of these should still report, or be made to do again, commits nothing.
UPDATE tasks SET superseded = true
 WHERE status IN ('Failed', 'Canceled') AND NOT superseded
   AND generation_id = ANY(:generation_ids);

-- name: close_invalidations!
UPDATE data_invalidations
   SET processed_at = clock_timestamp(), routed_at = coalesce(routed_at, clock_timestamp())
 WHERE processed_at IS NULL
   AND dataset_version = ANY(ARRAY(SELECT version FROM dataset_versions
                                    WHERE generation_id = ANY(:generation_ids)));

-- name: unclean
-- Purged, and the files may not all be gone.
SELECT id AS generation_id FROM generations
 WHERE purged_at IS NOT NULL AND cleaned_at IS NULL ORDER BY id LIMIT :limit;

-- name: mark_clean!
UPDATE generations SET cleaned_at = clock_timestamp()
 WHERE id = :generation_id AND purged_at IS NOT NULL AND cleaned_at IS NULL;
