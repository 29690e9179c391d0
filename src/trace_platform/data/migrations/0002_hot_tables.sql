-- Hot tables: one per generation of a dataset that a follower writes, rewritten by block range.

-- What is hot, up to where, and who may write it. `first_block` is the lowest block that the table
-- answers for: older ones are in files. It moves in the transaction that moves the rows.
CREATE TABLE hot_tables (
    dataset_version uuid PRIMARY KEY,
    dataset_uuid    uuid NOT NULL,
    columns         jsonb NOT NULL,
    key             text[] NOT NULL,
    first_block     bigint,
    last_block      bigint,
    announced_to    bigint,
    writer_task     uuid,
    writer_attempt  integer,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((first_block IS NULL) = (last_block IS NULL)),
    CHECK ((writer_task IS NULL) = (writer_attempt IS NULL))
) WITH (fillfactor = 50);  -- a row is updated with every block: in place, on its own page

-- Hashes of the newest blocks, and of every block that has rows: they tell forks apart.
CREATE TABLE chain_hashes (
    dataset_version uuid NOT NULL REFERENCES hot_tables ON DELETE CASCADE,
    block_number    bigint NOT NULL,
    block_hash      bytea NOT NULL,
    PRIMARY KEY (dataset_version, block_number)
);

-- What the Dispatcher has to be told, written with the rows that it is about.
CREATE TABLE hot_outbox (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    dataset_version uuid NOT NULL REFERENCES hot_tables ON DELETE CASCADE,
    kind            text NOT NULL CHECK (kind IN ('event', 'invalidation')),
    "start"         bigint NOT NULL,
    "end"           bigint NOT NULL,
    reason          text NOT NULL DEFAULT '',
    CHECK ("end" >= "start")
);
CREATE INDEX ON hot_outbox (dataset_version, seq);

CREATE TABLE alert_events (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    severity     text NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    code         text NOT NULL,
    dag          text,
    job          text,
    dataset_uuid uuid,
    message      text NOT NULL,
    facts        jsonb NOT NULL DEFAULT '{}',
    dedupe_key   text NOT NULL UNIQUE
);
CREATE INDEX ON alert_events (created_at);

-- Rows of a Spark write on their way into a hot table. `parts` are the tasks whose rows count; null
-- until all of them have ended well.
CREATE TABLE staging_tables (
    name            text PRIMARY KEY,
    dataset_version uuid NOT NULL REFERENCES hot_tables ON DELETE CASCADE,
    writer_task     uuid NOT NULL,
    writer_attempt  integer NOT NULL,
    parts           bigint[],
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON staging_tables (dataset_version);

-- A worker moves extents and fences and says which parts count. What a table is, and that it is, it
-- changes through the functions below alone.
REVOKE INSERT, UPDATE, DELETE ON hot_tables, staging_tables FROM trace_data_writer;
GRANT UPDATE (first_block, last_block, announced_to, writer_task, writer_attempt)
   ON hot_tables TO trace_data_writer;
GRANT UPDATE (parts) ON staging_tables TO trace_data_writer;
REVOKE UPDATE, DELETE ON alert_events FROM trace_data_writer;
REVOKE ALL ON chain_hashes, hot_outbox, staging_tables FROM trace_query;

CREATE FUNCTION hot_table_name(version uuid) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
RETURN 'dataset_' || replace(version::text, '-', '');

-- The columns as they stand in CREATE TABLE. Names and types are of ours alone: nothing else passes.
CREATE FUNCTION hot_column_list(columns jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
    list  text;
BEGIN
    IF jsonb_typeof(columns) <> 'array' OR jsonb_array_length(columns) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'columns must be a list of 1 to 500' USING ERRCODE = '22023';
    END IF;
    SELECT c::text INTO wrong FROM jsonb_array_elements(columns) c
     WHERE coalesce(jsonb_typeof(c) <> 'object'
                    OR c->>'name' !~ '^[a-z_][a-z0-9_]{0,62}$'
                    OR c->>'type' <> ALL ('{bigint,bytea,text,double precision,boolean,numeric}')
                    OR jsonb_typeof(c->'nullable') <> 'boolean', true)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'not a column of a hot table: %', left(wrong, 200) USING ERRCODE = '22023';
    END IF;
    SELECT string_agg(format('%I %s%s', c->>'name', c->>'type',
                             CASE WHEN (c->'nullable')::boolean THEN '' ELSE ' NOT NULL' END),
                      ', ' ORDER BY n)
      INTO list FROM jsonb_array_elements(columns) WITH ORDINALITY AS e (c, n);
    RETURN list;
END $$;

-- Make the table of a generation, or add columns at its end that may be null. True: it is as asked.
-- False: there is one with other columns, another key or another dataset, and it was left alone.
CREATE FUNCTION make_hot_table(version uuid, dataset uuid, columns jsonb, key text[])
RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name  text := public.hot_table_name(version);
    list  text := public.hot_column_list(columns);
    known public.hot_tables;
    n     integer;
    added jsonb;
BEGIN
    IF name IS NULL OR dataset IS NULL OR list IS NULL OR coalesce(cardinality(key), 0) = 0 THEN
        RAISE EXCEPTION 'a hot table needs a version, a dataset, columns and a key'
              USING ERRCODE = '22004';
    END IF;
    IF key[1] <> 'block_number' OR EXISTS (
           SELECT FROM unnest(key) k WHERE NOT columns @> jsonb_build_array(
                  jsonb_build_object('name', k, 'nullable', false)))
       OR NOT columns @> '[{"name": "block_number", "type": "bigint"}]' THEN
        RAISE EXCEPTION 'the key must be columns that are never null, first of them block_number bigint'
              USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(name, 0));
    SELECT * INTO known FROM public.hot_tables h WHERE h.dataset_version = version;
    IF known.dataset_version IS NULL THEN
        -- Rows are written once and deleted by range: pages are filled, and vacuum comes early.
        EXECUTE format('CREATE TABLE public.%I (%s, PRIMARY KEY (%s)) WITH (
                            autovacuum_vacuum_scale_factor = 0.02,
                            autovacuum_vacuum_insert_scale_factor = 0.05,
                            autovacuum_analyze_scale_factor = 0.02)', name, list,
                       (SELECT string_agg(quote_ident(k), ', ' ORDER BY i)
                          FROM unnest(key) WITH ORDINALITY AS e (k, i)));
        INSERT INTO public.hot_tables (dataset_version, dataset_uuid, columns, key)
        VALUES (version, dataset, columns, key);
        RETURN true;
    END IF;
    IF known.dataset_uuid <> dataset OR known.key <> key THEN
        RETURN false;
    END IF;
    IF known.columns = columns THEN
        RETURN true;
    END IF;
    n := jsonb_array_length(known.columns);
    SELECT jsonb_agg(c ORDER BY i) FILTER (WHERE i > n) INTO added
      FROM jsonb_array_elements(columns) WITH ORDINALITY AS e (c, i);
    IF jsonb_array_length(columns) <= n OR known.columns || added <> columns
       OR added @> '[{"nullable": false}]' THEN
        RETURN false;
    END IF;
    EXECUTE (SELECT format('ALTER TABLE public.%I ', name) || string_agg(
                        format('ADD COLUMN %I %s', c->>'name', c->>'type'), ', ')
               FROM jsonb_array_elements(added) c);
    UPDATE public.hot_tables h SET columns = make_hot_table.columns WHERE h.dataset_version = version;
    RETURN true;
END $$;

-- With all that is known of it. For whoever purges a generation.
CREATE FUNCTION drop_hot_table(version uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT s.name FROM public.staging_tables s WHERE s.dataset_version = version LOOP
        EXECUTE format('DROP TABLE IF EXISTS public.%I', name);
    END LOOP;
    DELETE FROM public.hot_tables h WHERE h.dataset_version = version;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS public.%I', public.hot_table_name(version));
    RETURN true;
END $$;

CREATE FUNCTION drop_staging_table(staging text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM public.staging_tables s WHERE s.name = staging;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS public.%I', staging);
    RETURN true;
END $$;

-- A table for the rows of one Spark write, and its name; null for an attempt that does not hold the
-- fence. Tables of other attempts are dead and go, unless somebody still holds on to one.
CREATE FUNCTION make_staging_table(version uuid, task uuid, attempt integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '2s'
AS $$
DECLARE
    dead    text;
    staging text := 'staging_' || replace(version::text, '-', '') || '_'
                    || left(replace(gen_random_uuid()::text, '-', ''), 12);
BEGIN
    PERFORM FROM public.hot_tables h
      WHERE h.dataset_version = version AND h.writer_task = task AND h.writer_attempt = attempt
        FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR dead IN SELECT s.name FROM public.staging_tables s
                 WHERE s.dataset_version = version
                   AND (s.writer_task, s.writer_attempt) <> (task, attempt) LOOP
        BEGIN
            PERFORM public.drop_staging_table(dead);
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- the next attempt finds it
        END;
    END LOOP;
    EXECUTE format('CREATE UNLOGGED TABLE public.%I (LIKE public.%I, spark_task bigint NOT NULL)
                    WITH (autovacuum_enabled = false)', staging, public.hot_table_name(version));
    EXECUTE format('REVOKE ALL ON public.%I FROM trace_query', staging);
    INSERT INTO public.staging_tables (name, dataset_version, writer_task, writer_attempt)
    VALUES (staging, version, task, attempt);
    RETURN staging;
END $$;

REVOKE ALL ON FUNCTION hot_table_name(uuid), hot_column_list(jsonb),
    make_hot_table(uuid, uuid, jsonb, text[]), drop_hot_table(uuid), drop_staging_table(text),
    make_staging_table(uuid, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_hot_table(uuid, uuid, jsonb, text[]), drop_staging_table(text),
    make_staging_table(uuid, uuid, integer) TO trace_data_writer;
