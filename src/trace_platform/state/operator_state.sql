-- name: all_of
SELECT key, value FROM operator_state WHERE generation_id = :generation_id ORDER BY key;

-- name: put!
INSERT INTO operator_state (generation_id, key, value)
SELECT :generation_id, key, value FROM jsonb_each(:state)
 WHERE jsonb_typeof(value) <> 'null' ORDER BY key
    ON CONFLICT (generation_id, key)
    DO UPDATE SET value = excluded.value, changed_at = clock_timestamp();

-- name: forget!
DELETE FROM operator_state WHERE generation_id = :generation_id AND key = ANY(:keys::text[]);

-- name: forget_all!
DELETE FROM operator_state WHERE generation_id = ANY(:generation_ids::uuid[]);
