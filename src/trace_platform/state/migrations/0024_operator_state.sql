-- What an operator wants to find again in its next attempt, or its next task: by generation, so that what
-- is built anew begins without it. Written with the events or the commit that it goes with.
CREATE TABLE operator_state (
    generation_id  uuid NOT NULL REFERENCES generations ON DELETE CASCADE,
    key            text NOT NULL,
    value          jsonb NOT NULL,
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (generation_id, key)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON operator_state TO trace_dispatcher;
