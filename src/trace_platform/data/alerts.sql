-- name: record!
INSERT INTO alert_events (severity, code, message, dedupe_key, facts, dag, job, dataset_uuid)
VALUES (:severity, :code, :message, :dedupe_key, :facts, :dag, :job, :dataset_uuid)
    ON CONFLICT (dedupe_key) DO NOTHING;
