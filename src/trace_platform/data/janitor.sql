-- name: drop_hot_table$
SELECT drop_hot_table(:version);

-- name: alerts
SELECT id AS alert_id, created_at, severity, code, dag, job, dataset_uuid, message, facts
  FROM alert_events
 WHERE severity = ANY(:severities)
 ORDER BY created_at DESC, id LIMIT :limit;
