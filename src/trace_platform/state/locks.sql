-- Each a statement of its own: what follows sees all that was committed until then.

-- name: claims!
SELECT locks.take_claims(:runtime);

-- name: routing!
LOCK TABLE locks.routing IN EXCLUSIVE MODE;

-- name: share_routing!
LOCK TABLE locks.routing IN SHARE MODE;

-- name: deploys!
-- Whoever only refers to the organisation does not wait.
SELECT FROM orgs WHERE id = :org_id FOR NO KEY UPDATE;

-- name: take_if_free$
SELECT locks.take_if_free(:name);
