-- name: newest_of
-- Of each of these watches: the beginning and the end of an incident are two records.
SELECT w.watch, a.dedupe_key
  FROM unnest(:watches::text[]) AS w (watch)
 CROSS JOIN LATERAL (
       SELECT dedupe_key FROM alert_events
        WHERE starts_with(dedupe_key, w.watch) ORDER BY created_at DESC LIMIT 1) a;

-- name: open_of_check
-- The beginnings of incidents that have no end yet.
SELECT dedupe_key FROM alert_events b
 WHERE starts_with(dedupe_key, :check) AND right(dedupe_key, 5) = 'begin'
   AND NOT EXISTS (SELECT FROM alert_events e
                    WHERE e.dedupe_key = left(b.dedupe_key, -5) || 'end')
 ORDER BY created_at;
