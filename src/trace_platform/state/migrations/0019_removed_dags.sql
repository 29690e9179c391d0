-- A DAG can be removed: no version of it is active then, and what was active when stays on record.
GRANT DELETE ON active_dags TO trace_dispatcher;
ALTER TABLE deploys
    DROP CONSTRAINT deploys_kind_check,
    ADD CONSTRAINT deploys_kind_check CHECK (kind IN ('deploy', 'rollback', 'removal')),
    -- Of a removal: none.
    ALTER COLUMN to_version DROP NOT NULL,
    ADD CHECK ((to_version IS NULL) = (kind = 'removal'));
