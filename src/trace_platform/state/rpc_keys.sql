-- name: claim
-- Free, ours, or expired; what another holder has stays its own.
INSERT INTO rpc_key_claims AS claim (key_name, holder, expires_at)
SELECT key_name, :holder, clock_timestamp() + make_interval(secs => :lease_s)
  FROM unnest(:keys::text[]) AS key_name
 ORDER BY key_name
    ON CONFLICT (key_name) DO UPDATE
   SET holder = excluded.holder,
       expires_at = excluded.expires_at,
       claimed_at = CASE WHEN claim.holder = excluded.holder THEN claim.claimed_at
                         ELSE clock_timestamp() END
 WHERE claim.holder = excluded.holder OR claim.expires_at <= clock_timestamp()
RETURNING key_name;

-- name: release!
DELETE FROM rpc_key_claims WHERE holder = :holder AND key_name = ANY(:keys::text[]);
