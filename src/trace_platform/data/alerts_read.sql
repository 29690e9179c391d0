-- name: listing
SELECT id AS alert_id, created_at, severity, code, dag, job, dataset_uuid, message, facts
  FROM alert_events
 WHERE severity = ANY(:severities)
 ORDER BY created_at DESC, id LIMIT :limit;

-- name: recent_counts
-- An incident is two records: its beginning counts until there is its end, which is `info`.
SELECT severity, code, coalesce(dag, '') AS dag, coalesce(job, '') AS job, count(*) AS n
  FROM alert_events a
 WHERE created_at > (SELECT clock_timestamp()) - interval '1 day' AND severity <> 'info'
   AND NOT (right(dedupe_key, 5) = 'begin' AND EXISTS (
            SELECT 1 FROM alert_events e
             WHERE e.dedupe_key = left(a.dedupe_key, -5) || 'end'))
 GROUP BY 1, 2, 3, 4;
