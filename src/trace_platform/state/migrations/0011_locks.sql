-- Locks that only the dispatcher's role can take. An advisory lock can be taken, and kept, by every role
-- that may connect: one that was stolen from a worker would stop all claims and all routing.
--
-- Tables are locked instead: that writes nothing, as little as an advisory lock did.

CREATE SCHEMA locks;
REVOKE ALL ON SCHEMA locks FROM PUBLIC;

CREATE TABLE locks.routing ();
CREATE TABLE locks.route_invalidations ();
CREATE TABLE locks.relieve_pressure ();
DO $$
BEGIN
    FOR n IN 0..15 LOOP
        EXECUTE format('CREATE TABLE locks.claims_%s ()', n);
    END LOOP;
END $$;

-- Claims of one runtime take turns; two runtimes that share a table do as well, which costs little.
CREATE FUNCTION locks.take_claims(runtime text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE locks.claims_%s IN EXCLUSIVE MODE', hashtext(runtime) & 15);
END $$;

-- Whether it was free, and is ours now.
CREATE FUNCTION locks.take_if_free(name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('LOCK TABLE locks.%I IN EXCLUSIVE MODE NOWAIT', name);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA locks FROM PUBLIC;
GRANT USAGE ON SCHEMA locks TO trace_dispatcher;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA locks TO trace_dispatcher;
-- Who may not update a table may not lock it either.
GRANT UPDATE ON ALL TABLES IN SCHEMA locks TO trace_dispatcher;

-- Those who need one were given it by name.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
-- What was applied is the owner's to say.
REVOKE ALL ON schema_migrations FROM trace_dispatcher;
