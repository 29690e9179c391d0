-- name: default_org$
SELECT id FROM orgs WHERE slug = 'default';

-- name: insert_version$
INSERT INTO dag_versions (org_id, dag_name, content_hash, yaml)
VALUES (:org_id, :dag_name, :content_hash, :yaml)
    ON CONFLICT (org_id, dag_name, content_hash) DO NOTHING
RETURNING id;

-- name: find_version$
SELECT id FROM dag_versions
 WHERE org_id = :org_id AND dag_name = :dag_name AND content_hash = :content_hash;

-- name: find_job$
SELECT id FROM jobs
 WHERE org_id = :org_id AND dag_name = :dag_name AND name = :name AND config_hash = :config_hash;

-- name: insert_job$
INSERT INTO jobs (org_id, dag_name, name, config_hash, activation, source, runtime, operator,
    execution_strategy, outputs, config, priority, max_attempts, timeout_seconds,
    heartbeat_timeout_seconds, max_concurrency, max_queue_depth, max_queue_age_s, pressure_mode,
    definition)
VALUES (:org_id, :dag_name, :name, :config_hash, :activation, :source, :runtime, :operator,
    :execution_strategy, :outputs, :config, :priority, :max_attempts, :timeout_seconds,
    :heartbeat_timeout_seconds, :max_concurrency, :max_queue_depth, :max_queue_age_s, :pressure_mode,
    :definition)
RETURNING id;

-- name: unset_jobs!
DELETE FROM dag_version_jobs WHERE dag_version_id = :dag_version_id AND job_id <> ALL(:job_ids);

-- name: set_jobs!
-- Where a version's data lives may change: a generation that was purged has another in its place.
INSERT INTO dag_version_jobs (dag_version_id, job_id, generation_id)
SELECT :dag_version_id, * FROM unnest(:job_ids::uuid[], :generation_ids::uuid[])
    ON CONFLICT (dag_version_id, job_id) DO UPDATE SET generation_id = excluded.generation_id;

-- name: set_publishes!
INSERT INTO dag_version_publishes (dag_version_id, name, dataset_uuid, metadata)
SELECT :dag_version_id, * FROM unnest(:names::text[], :uuids::uuid[], :metadata::jsonb[])
    ON CONFLICT DO NOTHING;

-- name: insert_edge!
INSERT INTO input_edges (job_id, input_index, dataset_uuid, dataset_name, filter, trigger)
VALUES (:job_id, :input_index, :dataset_uuid, :dataset_name, :filter, :trigger);

-- name: activate!
INSERT INTO active_dags (org_id, dag_name, dag_version_id)
VALUES (:org_id, :dag_name, :dag_version_id)
    ON CONFLICT (org_id, dag_name) DO UPDATE
   SET dag_version_id = excluded.dag_version_id, activated_at = clock_timestamp()
 WHERE active_dags.dag_version_id <> excluded.dag_version_id;

-- name: active_version$
SELECT dag_version_id FROM active_dags WHERE org_id = :org_id AND dag_name = :dag_name;

-- name: version_jobs
-- Each job of a version: its definition, and where its data lives.
SELECT j.name, j.id AS job_id, j.config_hash, j.activation, j.definition, v.generation_id,
       g.fingerprint, g.built_at, g.purged_at
  FROM dag_version_jobs v
  JOIN jobs j ON j.id = v.job_id
  JOIN generations g ON g.id = v.generation_id
 WHERE v.dag_version_id = :dag_version_id
 ORDER BY j.created_at, j.name;

-- name: get_version^
SELECT dag_name, content_hash, yaml FROM dag_versions WHERE org_id = :org_id AND id = :version;

-- name: versions
SELECT v.id AS dag_version, v.dag_name, v.content_hash, v.created_at,
       a.dag_version_id IS NOT NULL AS active, a.activated_at,
       EXISTS (SELECT FROM dag_version_jobs j JOIN generations g ON g.id = j.generation_id
                WHERE j.dag_version_id = v.id AND g.purged_at IS NOT NULL) AS purged
  FROM dag_versions v
  LEFT JOIN active_dags a ON a.dag_version_id = v.id
 WHERE v.org_id = :org_id AND v.dag_name = :dag_name
 ORDER BY v.created_at DESC, v.id LIMIT :limit;

-- name: publishes
SELECT name, dataset_uuid, metadata FROM dag_version_publishes
 WHERE dag_version_id = :dag_version_id ORDER BY dataset_uuid;

-- name: active_jobs
SELECT j.id, j.dag_name, j.name, j.activation, j.source, j.runtime, j.operator, j.outputs, j.priority
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name
 ORDER BY j.created_at, j.name;

-- name: active_job^
SELECT j.id, j.dag_name, j.name, j.activation, j.source, j.runtime, j.operator, j.outputs, j.priority
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name AND j.name = :job_name;

-- name: active_dag_names
SELECT dag_name FROM active_dags WHERE org_id = :org_id ORDER BY dag_name;

-- name: deactivate!
DELETE FROM active_dags WHERE org_id = :org_id AND dag_name = :dag_name;

-- name: overview
-- Every DAG that has a version: the one that is active or being built for the first time, or else the
-- newest; how many jobs it has, and of these how many sources.
SELECT d.dag_name, s.id AS dag_version, a.dag_version_id IS NOT NULL AS active, a.activated_at,
       array_remove(array_agg(j.name ORDER BY j.created_at, j.name), NULL) AS job_names,
       ARRAY(SELECT n.name FROM datasets n
              WHERE n.org_id = :org_id AND n.dag_name = d.dag_name AND n.name IS NOT NULL
              ORDER BY n.name) AS datasets,
       count(j.id) AS jobs, count(j.id) FILTER (WHERE j.activation = 'source') AS sources,
       count(j.id) FILTER (WHERE EXISTS (
           SELECT FROM job_holds h WHERE h.org_id = j.org_id AND h.dag_name = j.dag_name
              AND h.job_name = j.name AND h.cause = 'user')) AS paused
  FROM (SELECT DISTINCT dag_name FROM dag_versions WHERE org_id = :org_id) d
  LEFT JOIN active_dags a ON a.org_id = :org_id AND a.dag_name = d.dag_name
  LEFT JOIN deploys b ON b.org_id = :org_id AND b.dag_name = d.dag_name AND b.status = 'Building'
 CROSS JOIN LATERAL (
       SELECT v.id FROM dag_versions v
        WHERE v.org_id = :org_id AND v.dag_name = d.dag_name
          AND (coalesce(a.dag_version_id, b.to_version) IS NULL
               OR v.id = coalesce(a.dag_version_id, b.to_version))
        ORDER BY v.created_at DESC, v.id LIMIT 1) s
  LEFT JOIN dag_version_jobs v ON v.dag_version_id = s.id
  LEFT JOIN jobs j ON j.id = v.job_id
 GROUP BY d.dag_name, s.id, a.dag_version_id, a.activated_at
 ORDER BY d.dag_name;
