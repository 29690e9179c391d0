-- name: record!
INSERT INTO alert_events (severity, code, message, dedupe_key, facts, dag, job, dataset_uuid)
VALUES (:severity, :code, :message, :dedupe_key, :facts, :dag, :job, :dataset_uuid)
    ON CONFLICT (dedupe_key) DO NOTHING;

-- name: recent
SELECT id, created_at, severity, code, dag, job, dataset_uuid, message, facts, dedupe_key
  FROM alert_events ORDER BY created_at DESC, id LIMIT :limit;
