-- name: extents
-- How far what a generation reads goes, by input: what was said to be invalid is no news of its own.
-- Nothing lies before a block if not what ends first does.
SELECT DISTINCT s.dataset_version,
       (SELECT e.range_end FROM events e
         WHERE e.dataset_version = s.dataset_version AND e.range_end IS NOT NULL
           AND e.invalidation_id IS NULL ORDER BY e.range_end LIMIT 1) AS first_end,
       (SELECT e.range_end FROM events e
         WHERE e.dataset_version = s.dataset_version AND e.range_end IS NOT NULL
           AND e.invalidation_id IS NULL ORDER BY e.range_end DESC LIMIT 1) AS last
  FROM subscriptions s WHERE s.generation_id = :generation_id;

-- name: updates
-- What was said of a range, as far as it reaches into it. Short updates that do end soon after it;
-- long ones are few, and have an index of their own.
SELECT id, range_start, range_end, invalidation_id IS NULL AS is_there FROM events
 WHERE dataset_version = :dataset_version AND range_start <= :end
   AND range_end BETWEEN :start AND :end::bigint + 10000 AND range_end - range_start < 10000
UNION ALL
SELECT id, range_start, range_end, invalidation_id IS NULL FROM events
 WHERE dataset_version = :dataset_version AND range_start <= :end
   AND range_end >= :start AND range_end - range_start >= 10000;
