-- Everything here only reads, for plans.

-- name: sizes
-- What the outputs of each job of a version hold, and how long its newest partitions took to make.
-- The mean of a few dozen: neither all partitions' attempts nor any finished history are read.
WITH outputs AS MATERIALIZED (
    SELECT j.name AS job_name, d.version
      FROM dag_version_jobs v
      JOIN jobs j ON j.id = v.job_id
      JOIN dataset_versions d ON d.generation_id = v.generation_id
     WHERE v.dag_version_id = :dag_version_id
), held AS (
    SELECT o.job_name, count(p.partition_key) AS partitions,
           coalesce(sum(p.row_count), 0)::bigint AS rows,
           coalesce(sum(p.byte_count), 0)::bigint AS bytes
      FROM outputs o CROSS JOIN LATERAL (
           SELECT partition_key, row_count, byte_count FROM partition_versions
            WHERE dataset_version = o.version AND superseded_at IS NULL) p
     GROUP BY o.job_name
), made AS (
    SELECT o.job_name, avg(p.seconds) AS each_s
      FROM outputs o CROSS JOIN LATERAL (
           SELECT extract(epoch FROM a.ended_at - a.started_at)::float8 AS seconds
             FROM (SELECT task_id, attempt FROM partition_versions
                    WHERE dataset_version = o.version AND superseded_at IS NULL
                      AND range_start IS NOT NULL
                    ORDER BY range_start DESC LIMIT 30) p
             JOIN task_attempts a ON a.task_id = p.task_id AND a.attempt = p.attempt
            WHERE a.ended_at IS NOT NULL) p
     GROUP BY o.job_name
), counted AS (
    SELECT job_name, count(*) AS outputs FROM outputs GROUP BY job_name
)
SELECT h.job_name, jsonb_build_object(
           'partitions', h.partitions, 'rows', h.rows, 'bytes', h.bytes,
           -- One task makes a partition of each output.
           'seconds', m.each_s * h.partitions / c.outputs) AS amount
  FROM held h
  JOIN counted c ON c.job_name = h.job_name
  LEFT JOIN made m ON m.job_name = h.job_name;

-- name: readers
-- Jobs of other DAGs that read an output of one of these jobs.
SELECT DISTINCT g.dag_name, g.job_name,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM datasets d
  JOIN subscriptions s ON s.dataset_uuid = d.uuid AND s.dataset_version = d.current_version
  JOIN generations g ON g.id = s.generation_id AND g.dag_name <> d.dag_name
 WHERE d.org_id = :org_id AND d.dag_name = :dag_name AND d.job_name = ANY(:job_names)
 ORDER BY 1, 2, 3;

-- name: published
SELECT p.name, p.metadata, d.job_name, d.output_index
  FROM dag_version_publishes p JOIN datasets d ON d.uuid = p.dataset_uuid
 WHERE p.dag_version_id = :dag_version_id;

-- name: slots$
SELECT coalesce(sum(slots), 0)::integer FROM workers
 WHERE seen_at > clock_timestamp() - interval '1 minute';
