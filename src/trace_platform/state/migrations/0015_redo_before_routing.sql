-- A new function may be called by whom it is granted to, and by nobody else.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

-- Whether somebody asked for an event to be worked through once more before it was routed. Its task is
-- then done whatever was read before: the one that was asked for may fail, and nothing else tells of it.
ALTER TABLE events ADD COLUMN redo boolean NOT NULL DEFAULT false;
