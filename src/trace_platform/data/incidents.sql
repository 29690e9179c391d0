-- name: count_others$
SELECT count(DISTINCT split_part(substr(dedupe_key, length(:watch) + 1), ':', 1)) FROM alert_events
 WHERE starts_with(dedupe_key, :watch) AND NOT starts_with(dedupe_key, :watch || :own);

-- name: next_number$
-- Of incidents there: older ones may be forgotten.
SELECT coalesce(max(split_part(substr(dedupe_key, length(:incident) + 1), ':', 1)::integer) + 1, 0)
  FROM alert_events
 WHERE starts_with(dedupe_key, :incident) AND right(dedupe_key, 3) = 'end';

-- name: newest$
-- Of a watch: the beginning and the end of an incident are two records.
SELECT dedupe_key FROM alert_events
 WHERE starts_with(dedupe_key, :watch) ORDER BY created_at DESC LIMIT 1;

-- name: last_block^
-- Of the newest generation that is hot.
SELECT last_block FROM hot_tables
 WHERE dataset_uuid = :dataset_uuid ORDER BY created_at DESC LIMIT 1;

-- name: now$
SELECT extract(epoch FROM clock_timestamp())::double precision;
