-- name: begin$
INSERT INTO deploys (org_id, dag_name, kind, from_version, to_version, status, building, ended_at)
VALUES (:org_id, :dag_name, :kind, :from_version, :to_version, :status, :building,
        CASE WHEN :status <> 'Building' THEN clock_timestamp() END)
RETURNING id;

-- name: building
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE status = 'Building' ORDER BY id;

-- name: building_of^
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE org_id = :org_id AND dag_name = :dag_name AND status = 'Building';

-- name: hold^
-- The row stays locked: of two that would end it, one finds it ended.
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE id = :id AND status = 'Building' FOR UPDATE;

-- name: set_waiting!
UPDATE deploys SET waiting = :waiting WHERE id = :id;

-- name: finish!
UPDATE deploys SET status = :status, error = :error, ended_at = clock_timestamp()
 WHERE id = :id AND status = 'Building';

-- name: get^
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE org_id = :org_id AND id = :id;

-- name: newest^
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE org_id = :org_id AND dag_name = :dag_name ORDER BY id DESC LIMIT 1;

-- name: before$
-- The version that was active before this one became so, the last time.
SELECT from_version FROM deploys
 WHERE org_id = :org_id AND dag_name = :dag_name AND to_version = :version
   AND kind = 'deploy' AND status = 'CutOver' AND from_version IS NOT NULL
 ORDER BY id DESC LIMIT 1;

-- name: listing
SELECT id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys
 WHERE org_id = :org_id AND (:dag_name::text IS NULL OR dag_name = :dag_name)
 ORDER BY id DESC LIMIT :limit;

-- name: progress
-- Of each job that is built: its partitions so far and before, and the tasks that have not ended.
WITH built AS MATERIALIZED (
    SELECT j.name, v.generation_id, o.generation_id AS old_generation_id
      FROM dag_version_jobs v
      JOIN jobs j ON j.id = v.job_id
      LEFT JOIN (dag_version_jobs o JOIN jobs oj ON oj.id = o.job_id)
        ON o.dag_version_id = :from_version AND oj.name = j.name
     WHERE v.dag_version_id = :to_version AND v.generation_id = ANY(:building::uuid[])
), alive AS MATERIALIZED (
    SELECT generation_id, count(*) AS tasks FROM live_tasks
     WHERE generation_id::text = ANY(:building::text[]) GROUP BY generation_id
)
SELECT b.name AS job,
       (SELECT count(*) FROM dataset_versions d
          JOIN partition_versions p ON p.dataset_version = d.version AND p.superseded_at IS NULL
         WHERE d.generation_id = b.generation_id) AS partitions,
       (SELECT count(*) FROM dataset_versions d
          JOIN partition_versions p ON p.dataset_version = d.version AND p.superseded_at IS NULL
         WHERE d.generation_id = b.old_generation_id) AS before,
       coalesce(a.tasks, 0) AS tasks
  FROM built b LEFT JOIN alive a ON a.generation_id = b.generation_id
 ORDER BY b.name;

-- name: newest_of_each
SELECT DISTINCT ON (dag_name)
       id, org_id, dag_name, kind, from_version, to_version, status, building, waiting, error, started_at,
       ended_at
  FROM deploys WHERE org_id = :org_id ORDER BY dag_name, id DESC;
