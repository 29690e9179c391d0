-- Which egress process uses which key of a provider: names only, never values.

CREATE TABLE rpc_key_claims (
    key_name    text PRIMARY KEY,
    holder      text NOT NULL,
    claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON rpc_key_claims TO trace_dispatcher;
