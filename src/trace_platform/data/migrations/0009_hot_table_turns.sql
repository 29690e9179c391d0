-- Whoever makes a hot table takes turns with those who make the same one, and with nobody else: one
-- transaction that stayed open kept all of them waiting. A key that another transaction has added is
-- waited for, also when it was taken away again: no row is left.
ALTER TABLE hot_table_making ADD COLUMN IF NOT EXISTS dataset_version uuid PRIMARY KEY;
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('make_hot_table(uuid, uuid, jsonb, text[])'::regprocedure),
                    'LOCK TABLE public.hot_table_making IN EXCLUSIVE MODE;',
                    'INSERT INTO public.hot_table_making VALUES (version);
    DELETE FROM public.hot_table_making m WHERE m.dataset_version = version;');
END $$;
