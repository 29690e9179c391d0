-- Ids of one millisecond had no order among themselves, and what lists and claims by id went through
-- them at random. Now the twelve bits after the version are the millisecond's 4096 parts (RFC 9562,
-- 6.2, method 3, as Postgres 18 does it): ids lie in the order in which they were made. The clock is
-- read once, and the whole is one expression, which the caller's plan takes in.
CREATE OR REPLACE FUNCTION uuid7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT (overlay(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 4096000)::bigint), 15, '0')
                    PLACING '7' FROM 13 FOR 0)
            || substring(gen_random_uuid()::text FROM 20))::uuid;
$$;
CREATE OR REPLACE FUNCTION uuid7_at(moment timestamptz) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (overlay(lpad(to_hex((extract(epoch FROM moment) * 4096000)::bigint), 15, '0')
                    PLACING '7' FROM 13 FOR 0)
            || '8000000000000000')::uuid;
$$;
