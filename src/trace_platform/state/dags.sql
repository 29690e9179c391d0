-- name: default_org$
SELECT id FROM orgs WHERE slug = 'default';

-- name: lock_deploys!
-- Deploys of one org take turns: they share the names of its datasets.
SELECT pg_advisory_xact_lock(hashtextextended('deploy/' || :org_id::text, 0));

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
    heartbeat_timeout_seconds, max_concurrency, max_queue_depth, max_queue_age_s, pressure_mode)
VALUES (:org_id, :dag_name, :name, :config_hash, :activation, :source, :runtime, :operator,
    :execution_strategy, :outputs, :config, :priority, :max_attempts, :timeout_seconds,
    :heartbeat_timeout_seconds, :max_concurrency, :max_queue_depth, :max_queue_age_s, :pressure_mode)
RETURNING id;

-- name: add_job_to_version!
INSERT INTO dag_version_jobs (dag_version_id, job_id) VALUES (:dag_version_id, :job_id);

-- name: insert_edge!
INSERT INTO input_edges (job_id, input_index, dataset_uuid, filter)
VALUES (:job_id, :input_index, :dataset_uuid, :filter);

-- name: activate!
INSERT INTO active_dags (org_id, dag_name, dag_version_id)
VALUES (:org_id, :dag_name, :dag_version_id)
    ON CONFLICT (org_id, dag_name) DO UPDATE
   SET dag_version_id = excluded.dag_version_id, activated_at = clock_timestamp()
 WHERE active_dags.dag_version_id <> excluded.dag_version_id;

-- name: active_jobs
SELECT j.*, a.dag_version_id
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name
 ORDER BY j.created_at, j.name;

-- name: active_job^
SELECT j.*
  FROM active_dags a
  JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = v.job_id
 WHERE a.org_id = :org_id AND a.dag_name = :dag_name AND j.name = :job_name;

-- name: active_dag_names
SELECT dag_name FROM active_dags WHERE org_id = :org_id ORDER BY dag_name;
