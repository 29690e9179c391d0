-- name: generations
-- Folds that are read, as they go on: while one is being rebuilt, its events wait, and so does this.
SELECT DISTINCT s.generation_id, s.job_id
  FROM subscriptions s JOIN jobs j ON j.id = s.job_id
 WHERE j.operator = ANY(:operators) AND j.config->>'mode' = 'fold'
   AND j.definition->>'update_strategy' IS DISTINCT FROM 'append' AND NOT s.held;

-- name: parts
-- Its current partitions, in order. What a check keeps from somebody stays as it is, or he would find
-- it under another name.
SELECT p.id, p.range_start AS start, p.range_end AS "end"
  FROM dataset_versions v JOIN datasets d ON d.uuid = v.dataset_uuid AND d.output_index = 0
  JOIN partition_versions p ON p.dataset_version = v.version AND p.superseded_at IS NULL
 WHERE v.generation_id = :generation_id AND p.range_start IS NOT NULL
   AND NOT EXISTS (SELECT FROM withheld_partitions w WHERE w.materialisation = p.id)
 ORDER BY p.range_start;

-- name: merge
-- A task that merges what is there of a range, after everything else. It has the name of what it merges:
-- asked for again while it waits, it is the same.
WITH made AS (
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)
    SELECT j.org_id, j.id, s.generation_id, 'merge:' || :key || '@' || :parts, j.runtime,
           greatest(j.priority, :rank),
           jsonb_agg(jsonb_build_object(
               'input_index', s.input_index, 'dataset_uuid', s.dataset_uuid,
               'dataset_version', s.dataset_version, 'partition_key', :key::text,
               'start', :start::bigint, 'end', :end::bigint, 'merges', true)
               ORDER BY s.input_index)
      FROM subscriptions s JOIN jobs j ON j.id = s.job_id
     WHERE s.generation_id = :generation_id AND s.job_id = :job_id
     GROUP BY j.id, s.generation_id
        ON CONFLICT (generation_id, dedupe_key) DO NOTHING
    RETURNING id, runtime
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_build_array(id)) FROM made
RETURNING id;
