-- The embedded queue, in a schema of its own. Its roles reach it through these functions alone:
-- a worker can receive and acknowledge, and see nothing else of the control plane.

CREATE SCHEMA queue;
REVOKE ALL ON SCHEMA queue FROM PUBLIC;

CREATE TABLE queue.messages (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text NOT NULL,
    body           jsonb NOT NULL,
    visible_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    receive_count  integer NOT NULL DEFAULT 0,
    receipt        uuid,
    sent_at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ON queue.messages (queue, visible_at, id) WHERE receive_count < 10;
CREATE INDEX ON queue.messages (queue, visible_at, id) WHERE receive_count >= 10;

CREATE TABLE queue.dead_letters (
    id             bigint PRIMARY KEY,
    queue          text NOT NULL,
    body           jsonb NOT NULL,
    receive_count  integer NOT NULL,
    sent_at        timestamptz NOT NULL,
    died_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION queue.send(queue_name text, bodies jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    INSERT INTO queue.messages (queue, body) SELECT queue_name, jsonb_array_elements(bodies);
$$;

-- A message that was received ten times and never acknowledged wakes nobody up: it moves to the
-- dead letters. The task behind it is announced again by the Dispatcher.
--
-- The rows are chosen in materialised CTEs: as a subquery the choice could be made again for every
-- row it is joined to, each time skipping what is locked already, and LIMIT would mean nothing.
-- The time is asked for once, which lets the index serve it.
CREATE FUNCTION queue.receive(queue_name text, max_messages integer, visibility_s double precision)
RETURNS TABLE (receipt text, body jsonb, receive_count integer)
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    WITH worn AS MATERIALIZED (
        SELECT id FROM queue.messages
         WHERE queue = queue_name AND visible_at <= (SELECT clock_timestamp())
           AND receive_count >= 10
         ORDER BY visible_at, id LIMIT max_messages FOR UPDATE SKIP LOCKED
    ), dead AS (
        DELETE FROM queue.messages m USING worn WHERE m.id = worn.id
        RETURNING m.id, m.queue, m.body, m.receive_count, m.sent_at
    ), buried AS (
        INSERT INTO queue.dead_letters (id, queue, body, receive_count, sent_at) SELECT * FROM dead
    ), due AS MATERIALIZED (
        SELECT id FROM queue.messages
         WHERE queue = queue_name AND visible_at <= (SELECT clock_timestamp())
           AND receive_count < 10
         ORDER BY visible_at, id LIMIT max_messages FOR UPDATE SKIP LOCKED
    )
    UPDATE queue.messages m
       SET visible_at = clock_timestamp() + make_interval(secs => visibility_s),
           receive_count = m.receive_count + 1, receipt = gen_random_uuid()
      FROM due
     WHERE m.id = due.id
    RETURNING m.id || ':' || m.receipt, m.body, m.receive_count;
$$;

CREATE FUNCTION queue.ack(receipts text[]) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    WITH gone AS (
        DELETE FROM queue.messages m USING unnest(receipts) r
         WHERE m.id = split_part(r, ':', 1)::bigint AND m.receipt = split_part(r, ':', 2)::uuid
        RETURNING 1)
    SELECT count(*)::integer FROM gone;
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA queue FROM PUBLIC;
GRANT USAGE ON SCHEMA queue TO trace_dispatcher, trace_queue;
GRANT EXECUTE ON FUNCTION queue.send(text, jsonb) TO trace_dispatcher;
GRANT EXECUTE ON FUNCTION queue.receive(text, integer, double precision) TO trace_queue;
GRANT EXECUTE ON FUNCTION queue.ack(text[]) TO trace_queue;
