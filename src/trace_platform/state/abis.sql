-- name: keep_definition!
INSERT INTO abi_definitions (hash, events, functions) VALUES (:hash, :events, :functions)
    ON CONFLICT DO NOTHING;

-- name: add_version!
INSERT INTO abi_versions (org_id, name, chain_id, address, from_block, hash)
VALUES (:org_id, :name, :chain_id, :address, :from_block, :hash);

-- name: remove_versions!
UPDATE abi_versions SET removed_at = clock_timestamp()
 WHERE id = ANY(:ids::uuid[]) AND removed_at IS NULL;

-- name: versions
-- In the order in which they were added, those that were removed among them.
SELECT v.id, v.name, v.chain_id, v.address, v.from_block, v.hash, v.added_at, v.removed_at,
       cardinality(d.events) AS events, cardinality(d.functions) AS functions
  FROM abi_versions v JOIN abi_definitions d USING (hash)
 WHERE v.org_id = :org_id
   AND (:name::text IS NULL OR v.name = :name)
   AND (:chain_id::bigint IS NULL OR v.chain_id = :chain_id)
   AND (v.removed_at IS NULL OR :with_removed)
 ORDER BY v.id;

-- name: definitions
SELECT hash, events, functions FROM abi_definitions WHERE hash = ANY(:hashes) ORDER BY hash;

-- name: add_proxy!
INSERT INTO abi_implementations (org_id, chain_id, address, implementation, from_block, to_block)
VALUES (:org_id, :chain_id, :address, :implementation, :from_block, :to_block);

-- name: remove_proxies!
UPDATE abi_implementations SET removed_at = clock_timestamp()
 WHERE id = ANY(:ids::uuid[]) AND removed_at IS NULL;

-- name: proxies
SELECT id, chain_id, address, implementation, from_block, to_block, added_at
  FROM abi_implementations
 WHERE org_id = :org_id AND (:chain_id::bigint IS NULL OR chain_id = :chain_id)
   AND removed_at IS NULL
 ORDER BY chain_id, address, from_block;

-- name: record_changes!
INSERT INTO abi_changes (org_id, name, chain_id, range_start, range_end, reason)
SELECT :org_id, :name, :chain_id, c.first, c.last, :reason
  FROM unnest(:firsts::bigint[], :lasts::bigint[]) AS c (first, last);

-- name: users
-- The jobs of active DAGs that decode by a stored ABI, and of versions that are being built.
SELECT DISTINCT j.dag_name || '.' || j.name AS job, v.generation_id, a.abi->>'stored' AS abi,
       (j.config->>'chain_id')::bigint AS chain_id, d.active
  FROM (SELECT dag_version_id, true AS active FROM active_dags WHERE org_id = :org_id
         UNION ALL
        SELECT to_version, false FROM deploys WHERE org_id = :org_id AND status = 'Building') d
  JOIN dag_version_jobs v ON v.dag_version_id = d.dag_version_id
  JOIN generations g ON g.id = v.generation_id
  JOIN jobs j ON j.id = v.job_id
 CROSS JOIN LATERAL jsonb_array_elements(
       CASE WHEN jsonb_typeof(j.config->'abis') = 'array' THEN j.config->'abis' ELSE '[]' END)
       AS a (abi)
 WHERE j.operator IN ('log_decode', 'call_decode')
   AND jsonb_typeof(a.abi) = 'object' AND a.abi ? 'stored'
 ORDER BY 1, 3;

-- name: untold
-- Changes of an ABI since a generation began, that it was not told of.
SELECT c.id, c.range_start AS start, c.range_end AS "end", c.reason
  FROM abi_changes c
 WHERE c.org_id = :org_id AND c.name = :abi AND c.chain_id = :chain_id
   AND c.changed_at > (SELECT created_at FROM generations WHERE id = :generation_id)
   AND NOT EXISTS (SELECT FROM abi_changes_told t
                    WHERE t.generation_id = :generation_id AND t.change_id = c.id)
 ORDER BY c.id;

-- name: reads_up_to$
-- The last block of all that a generation was ever given or will be.
SELECT max((SELECT max(e.range_end) FROM events e
             WHERE e.dataset_version = s.dataset_version AND e.range_end IS NOT NULL))
  FROM (SELECT DISTINCT dataset_version FROM subscriptions WHERE generation_id = :generation_id) s;

-- name: first_output^
SELECT v.dataset_uuid, v.version AS dataset_version,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM dataset_versions v JOIN datasets d ON d.uuid = v.dataset_uuid
 WHERE v.generation_id = :generation_id AND d.output_index = 0;

-- name: tell!
INSERT INTO abi_changes_told (generation_id, change_id, invalidation_id)
VALUES (:generation_id, :change_id, :invalidation_id);

-- name: untell_moved!
-- What waits to be made anew goes with the dataset to another generation: the one that was told of a
-- change by it has not decoded again, and is told once more when it comes back.
DELETE FROM abi_changes_told t USING data_invalidations d, dataset_versions v
 WHERE d.id = t.invalidation_id AND v.version = d.dataset_version
   AND v.generation_id <> t.generation_id;
