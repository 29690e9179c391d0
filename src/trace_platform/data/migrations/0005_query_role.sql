-- What a query's role may read: hot tables, and what is known of them. Until now it could read every
-- table that was not taken from it.
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM trace_query;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM trace_query;
GRANT SELECT (dataset_version, dataset_uuid, columns, key, first_block, last_block, announced_to)
   ON hot_tables TO trace_query;

-- A table becomes one of theirs by being registered.
CREATE FUNCTION open_hot_table() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF to_regclass('public.' || public.hot_table_name(NEW.dataset_version)) IS NOT NULL THEN
        EXECUTE format('GRANT SELECT ON public.%I TO trace_query',
                       public.hot_table_name(NEW.dataset_version));
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION open_hot_table() FROM PUBLIC;
CREATE TRIGGER open_hot_table AFTER INSERT ON hot_tables
    FOR EACH ROW EXECUTE FUNCTION open_hot_table();

DO $$
DECLARE
    version uuid;
BEGIN
    FOR version IN SELECT dataset_version FROM hot_tables
                    WHERE to_regclass(hot_table_name(dataset_version)) IS NOT NULL LOOP
        EXECUTE format('GRANT SELECT ON %I TO trace_query', hot_table_name(version));
    END LOOP;
END $$;
