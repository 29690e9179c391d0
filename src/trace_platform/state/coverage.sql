-- name: extents
-- How far what a generation reads goes, by input: what was said to be invalid is no news of its own.
SELECT DISTINCT s.dataset_version,
       (SELECT e.range_start FROM events e
         WHERE e.dataset_version = s.dataset_version AND e.range_end IS NOT NULL
           AND e.invalidation_id IS NULL ORDER BY e.range_end LIMIT 1) AS first,
       (SELECT e.range_end FROM events e
         WHERE e.dataset_version = s.dataset_version AND e.range_end IS NOT NULL
           AND e.invalidation_id IS NULL ORDER BY e.range_end DESC LIMIT 1) AS last
  FROM subscriptions s WHERE s.generation_id = :generation_id;

-- name: updates
-- What was said of a range, as far as it reaches into it.
SELECT id, range_start, range_end, invalidation_id IS NULL AS is_there FROM events
 WHERE dataset_version = :dataset_version AND range_end >= :start AND range_start <= :end
 ORDER BY range_start;
