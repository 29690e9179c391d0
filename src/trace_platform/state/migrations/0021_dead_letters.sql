-- Dead letters can be looked at, sent again and dropped, and neither they nor messages that nobody takes
-- are kept for ever. As before the queue is reached through its functions alone.
CREATE INDEX ON queue.dead_letters (died_at);

-- The newest first: of one queue unless that is null, only these unless they are null.
CREATE FUNCTION queue.dead(queue_name text, ids bigint[], max_rows integer)
RETURNS TABLE (id bigint, queue text, body jsonb, receive_count integer, sent_at timestamptz,
               died_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    SELECT d.id, d.queue, d.body, d.receive_count, d.sent_at, d.died_at FROM queue.dead_letters d
     WHERE (queue_name IS NULL OR d.queue = queue_name) AND (ids IS NULL OR d.id = ANY (ids))
     ORDER BY d.died_at DESC, d.id DESC LIMIT max_rows;
$$;

CREATE FUNCTION queue.count_dead(queue_name text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    SELECT count(*) FROM queue.dead_letters d WHERE queue_name IS NULL OR d.queue = queue_name;
$$;

-- Each is a message like any other again. Which ones there were.
CREATE FUNCTION queue.resend_dead(ids bigint[]) RETURNS SETOF bigint
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    WITH risen AS (
        DELETE FROM queue.dead_letters d WHERE d.id = ANY (ids) RETURNING d.id, d.queue, d.body
    ), sent AS (
        INSERT INTO queue.messages (queue, body) SELECT r.queue, r.body FROM risen r ORDER BY r.id
    )
    SELECT id FROM risen;
$$;

CREATE FUNCTION queue.drop_dead(ids bigint[]) RETURNS SETOF bigint
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    DELETE FROM queue.dead_letters d WHERE d.id = ANY (ids) RETURNING d.id;
$$;

-- How many went: dead letters that died, and messages that were sent, longer ago than this.
CREATE FUNCTION queue.forget(keep_days double precision, max_rows integer) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = queue, pg_temp AS $$
    WITH dead AS (
        DELETE FROM queue.dead_letters
         WHERE id = ANY (ARRAY(
               SELECT id FROM queue.dead_letters
                WHERE died_at < (SELECT clock_timestamp() - make_interval(secs => keep_days * 86400))
                ORDER BY died_at LIMIT max_rows))
        RETURNING 1
    ), oldest AS MATERIALIZED (
        -- The time is not in an index, and the first that were sent are the first by their number.
        SELECT id, sent_at FROM queue.messages ORDER BY id LIMIT max_rows FOR UPDATE SKIP LOCKED
    ), unread AS (
        DELETE FROM queue.messages
         WHERE id = ANY (ARRAY(
               SELECT id FROM oldest
                WHERE sent_at < (SELECT clock_timestamp()
                                        - make_interval(secs => keep_days * 86400))))
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM dead) + (SELECT count(*) FROM unread);
$$;

REVOKE ALL ON FUNCTION queue.dead(text, bigint[], integer), queue.count_dead(text),
    queue.resend_dead(bigint[]), queue.drop_dead(bigint[]), queue.forget(double precision, integer)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue.dead(text, bigint[], integer), queue.count_dead(text),
    queue.resend_dead(bigint[]), queue.drop_dead(bigint[]), queue.forget(double precision, integer)
    TO trace_dispatcher;
