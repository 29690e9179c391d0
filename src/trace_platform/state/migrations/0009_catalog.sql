-- A task that completed says why it committed nothing: another partition holds all of its range.
ALTER TABLE tasks ADD COLUMN note text;

-- What the writer of a table says of it, beside how far it goes: whether its rows were counted, and its
-- columns.
ALTER TABLE dataset_versions
    ADD COLUMN rows_estimated  boolean NOT NULL DEFAULT false,
    ADD COLUMN table_columns   jsonb;
-- What was said until now is what Postgres guessed.
UPDATE dataset_versions SET rows_estimated = true WHERE row_count IS NOT NULL;
