-- A hot table may be asked for with more columns in its key than it was made with: logs that a chain
-- counts by transaction were told apart by block and index alone. What the shorter key told apart the
-- longer one does, too.
DO $$
BEGIN
    EXECUTE replace(
        pg_get_functiondef('make_hot_table(uuid, uuid, jsonb, text[])'::regprocedure),
        'IF known.dataset_uuid <> dataset OR known.key <> key THEN
        RETURN false;
    END IF;',
        'IF known.dataset_uuid <> dataset OR NOT key @> known.key THEN
        RETURN false;
    END IF;
    IF known.key <> key THEN
        EXECUTE format(''ALTER TABLE public.%I DROP CONSTRAINT %I, ADD PRIMARY KEY (%s)'', name,
                       (SELECT conname FROM pg_constraint
                         WHERE conrelid = format(''public.%I'', name)::regclass AND contype = ''p''),
                       (SELECT string_agg(quote_ident(k), '', '' ORDER BY i)
                          FROM unnest(key) WITH ORDINALITY AS e (k, i)));
        UPDATE public.hot_tables h SET key = make_hot_table.key WHERE h.dataset_version = version;
    END IF;');
END $$;
