-- ABIs that users gave, by the SHA-256 of their definitions: never changed, and kept as long as rows may
-- name them.
CREATE TABLE abi_definitions (
    hash       text PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{64}$'),
    -- Signatures, as Solidity writes them.
    events     text[] NOT NULL,
    functions  text[] NOT NULL,
    stored_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which definitions an ABI has from a block on: of one contract, or of all that have none of their own.
-- One that was removed is kept: columns are named with it in mind.
CREATE TABLE abi_versions (
    id          uuid PRIMARY KEY DEFAULT uuid7(),
    org_id      uuid NOT NULL REFERENCES orgs,
    name        text NOT NULL,
    chain_id    bigint NOT NULL,
    address     text CHECK (address ~ '^0x[0-9a-f]{40}$'),
    from_block  bigint NOT NULL,
    hash        text NOT NULL REFERENCES abi_definitions,
    added_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    removed_at  timestamptz
);
CREATE UNIQUE INDEX abi_versions_live
    ON abi_versions (org_id, name, chain_id, coalesce(address, ''), from_block) WHERE removed_at IS NULL;
CREATE INDEX abi_versions_of_name ON abi_versions (org_id, name, id);

-- A contract that is decoded by the ABIs of another one, from a block to a block.
CREATE TABLE abi_implementations (
    id              uuid PRIMARY KEY DEFAULT uuid7(),
    org_id          uuid NOT NULL REFERENCES orgs,
    chain_id        bigint NOT NULL,
    address         text NOT NULL CHECK (address ~ '^0x[0-9a-f]{40}$'),
    implementation  text NOT NULL CHECK (implementation ~ '^0x[0-9a-f]{40}$'),
    from_block      bigint NOT NULL,
    to_block        bigint CHECK (to_block >= from_block),
    added_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    removed_at      timestamptz
);
CREATE UNIQUE INDEX abi_implementations_live
    ON abi_implementations (org_id, chain_id, address, from_block) WHERE removed_at IS NULL;

-- Blocks that an ABI decodes otherwise since then; and the generations that were told to do these again.
-- One that began later has never decoded them in the old way.
CREATE TABLE abi_changes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id       uuid NOT NULL REFERENCES orgs,
    name         text NOT NULL,
    chain_id     bigint NOT NULL,
    range_start  bigint NOT NULL,
    range_end    bigint NOT NULL,
    reason       text NOT NULL,
    changed_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX abi_changes_of_name ON abi_changes (org_id, name, chain_id, id);
CREATE TABLE abi_changes_told (
    generation_id    uuid NOT NULL REFERENCES generations ON DELETE CASCADE,
    change_id        bigint NOT NULL REFERENCES abi_changes ON DELETE CASCADE,
    -- Null: the generation reads nothing of these blocks.
    invalidation_id  uuid,
    PRIMARY KEY (generation_id, change_id)
);

GRANT SELECT, INSERT ON abi_definitions, abi_changes, abi_changes_told TO trace_dispatcher;
GRANT SELECT, INSERT, UPDATE ON abi_versions, abi_implementations TO trace_dispatcher;
