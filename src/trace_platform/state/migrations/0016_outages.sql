-- Since when attempts of a task end because something that it needs is away: a node, Postgres data, the
-- store. Empty as soon as an attempt ends in another way.
ALTER TABLE tasks ADD COLUMN outage_since timestamptz;
-- How many attempts were forgiven for that reason: they use up none of what interruptions are forgiven.
ALTER TABLE tasks ADD COLUMN outages integer NOT NULL DEFAULT 0;
CREATE INDEX tasks_in_outage ON tasks (outage_since) WHERE outage_since IS NOT NULL;

-- Whether an outage, perhaps one that begins now, is younger than this.
CREATE FUNCTION outage_is_young(since timestamptz, max_s double precision) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT since IS NULL OR since > clock_timestamp() - make_interval(secs => max_s);
$$;
-- As long as the outage has lasted, so that each pause about doubles the time; at most five minutes.
CREATE FUNCTION outage_delay_s(since timestamptz, base_s double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT least(300, greatest(base_s, extract(epoch FROM clock_timestamp() - since)))
           * (0.5 + random() / 2);
$$;
GRANT EXECUTE ON FUNCTION outage_is_young(timestamptz, double precision),
    outage_delay_s(timestamptz, double precision) TO trace_dispatcher;
