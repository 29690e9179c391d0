-- Whoever makes a hot table takes turns by a lock that only the owner's functions can take: an advisory
-- lock could be taken, and kept, by every role that may connect.
CREATE TABLE IF NOT EXISTS hot_table_making ();
REVOKE ALL ON hot_table_making FROM trace_data_writer, trace_query;
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('make_hot_table(uuid, uuid, jsonb, text[])'::regprocedure),
                    'PERFORM pg_advisory_xact_lock(hashtextextended(name, 0));',
                    'LOCK TABLE public.hot_table_making IN EXCLUSIVE MODE;');
END $$;
