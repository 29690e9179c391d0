-- name: listing
-- `standing`: neither acknowledged nor over.
SELECT id AS alert_id, created_at, severity, code, dag, job, dataset_uuid, message, facts,
       acknowledged_at, acknowledged_by, acknowledged_note,
       ended_at IS NOT NULL OR incident_has_ended(dedupe_key) AS is_over
  FROM alert_events
 WHERE severity = ANY(:severities)
   AND (NOT :standing OR severity <> 'info' AND acknowledged_at IS NULL AND ended_at IS NULL
                         AND NOT incident_has_ended(dedupe_key))
 ORDER BY created_at DESC, id LIMIT :limit;

-- name: critical_standing
-- However old they are.
SELECT id AS alert_id, severity, code, dag, job, dataset_uuid, message, facts,
       extract(epoch FROM clock_timestamp() - created_at)::float8 AS age_s
  FROM alert_events
 WHERE severity = 'critical' AND acknowledged_at IS NULL AND ended_at IS NULL
   AND NOT incident_has_ended(dedupe_key)
 ORDER BY created_at DESC, id LIMIT :limit;

-- name: counts
-- Critical ones as long as they stand, others for a day.
SELECT severity, code, coalesce(dag, '') AS dag, coalesce(job, '') AS job, count(*) AS n
  FROM alert_events
 WHERE (severity = 'critical'
        OR severity = 'warning' AND created_at > (SELECT clock_timestamp()) - interval '1 day')
   AND acknowledged_at IS NULL AND ended_at IS NULL AND NOT incident_has_ended(dedupe_key)
 GROUP BY 1, 2, 3, 4;

-- name: acknowledge
-- The first who does it is on record.
UPDATE alert_events
   SET acknowledged_at = clock_timestamp(), acknowledged_by = :by, acknowledged_note = :note
 WHERE id = ANY(:alert_ids) AND acknowledged_at IS NULL
RETURNING id;

-- name: by_ids
SELECT id AS alert_id, created_at, severity, code, dag, job, dataset_uuid, message, facts,
       acknowledged_at, acknowledged_by, acknowledged_note,
       ended_at IS NOT NULL OR incident_has_ended(dedupe_key) AS is_over
  FROM alert_events WHERE id = ANY(:alert_ids) ORDER BY created_at DESC, id;

-- name: end_alerts!
UPDATE alert_events SET ended_at = clock_timestamp()
 WHERE id = ANY(:alert_ids) AND ended_at IS NULL;

-- name: forget_alerts$
SELECT forget_alerts(:keep_days::float8, :limit::integer);

-- name: position$
-- Another text once there is an alert more, or somebody has seen one, or one has ended.
SELECT concat_ws(' ', count(*), max(created_at), max(acknowledged_at), max(ended_at))
  FROM alert_events;
