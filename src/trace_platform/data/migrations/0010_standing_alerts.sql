-- A critical alert stands until somebody acknowledges it or what it tells of is over.
ALTER TABLE alert_events
    ADD COLUMN acknowledged_at   timestamptz,
    ADD COLUMN acknowledged_by   text,
    ADD COLUMN acknowledged_note text,
    -- When what it tells of was over, of an alert that has no record of its end: the files that it
    -- found wrong are read no more.
    ADD COLUMN ended_at          timestamptz;
CREATE INDEX alert_events_standing ON alert_events (created_at DESC)
    WHERE severity = 'critical' AND acknowledged_at IS NULL AND ended_at IS NULL;
GRANT UPDATE (acknowledged_at, acknowledged_by, acknowledged_note, ended_at)
   ON alert_events TO trace_data_janitor;

-- An incident is two records: its beginning is over when there is its end.
CREATE FUNCTION incident_has_ended(dedupe_key text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT right(dedupe_key, 5) = 'begin' AND EXISTS (
           SELECT FROM alert_events e WHERE e.dedupe_key = left($1, -5) || 'end');
$$;
REVOKE ALL ON FUNCTION incident_has_ended(text) FROM PUBLIC;

-- Alerts that are older than this, a little at a time. What stands is not forgotten, nor the beginning of
-- an incident whose end is younger: without it the incident would be told anew.
CREATE FUNCTION forget_alerts(keep_days double precision, max_rows integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH gone AS (
        DELETE FROM alert_events
         WHERE id IN (
               SELECT id FROM alert_events a
                WHERE created_at < (SELECT clock_timestamp() - make_interval(secs => keep_days * 86400))
                  AND (severity <> 'critical' OR acknowledged_at IS NOT NULL OR ended_at IS NOT NULL
                       OR incident_has_ended(a.dedupe_key))
                  AND (right(dedupe_key, 5) <> 'begin' OR EXISTS (
                       SELECT FROM alert_events e
                        WHERE e.dedupe_key = left(a.dedupe_key, -5) || 'end'
                          AND e.created_at < (SELECT clock_timestamp()
                                                     - make_interval(secs => keep_days * 86400))))
                ORDER BY created_at LIMIT max_rows)
        RETURNING 1)
    SELECT count(*)::integer FROM gone;
$$;
REVOKE ALL ON FUNCTION forget_alerts(double precision, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION incident_has_ended(text), forget_alerts(double precision, integer)
   TO trace_data_janitor;
