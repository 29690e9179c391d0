-- name: publish$
-- Recorded once per batch of an attempt, and its message owed in the same statement.
WITH published AS (
    INSERT INTO buffer_publishes (org_id, task_id, attempt, dataset_uuid, dataset_version,
                                  batch_uri, record_count)
    VALUES (:org_id, :task_id, :attempt, :dataset_uuid, :dataset_version, :batch_uri, :record_count)
        ON CONFLICT (task_id, attempt, dataset_uuid, batch_uri) DO NOTHING
    RETURNING *
), owed AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'buffer', jsonb_build_object(
               'kind', 'buffer_batch', 'org_id', org_id, 'dataset_uuid', dataset_uuid,
               'dataset_version', dataset_version, 'batch_uri', batch_uri,
               'record_count', record_count,
               'producer', jsonb_build_object('task_id', task_id, 'attempt', attempt))
      FROM published
)
SELECT count(*) FROM published;
