-- name: unnamed
-- Of a version, the generations from before there were fingerprints.
SELECT j.name, g.id FROM dag_version_jobs v
  JOIN jobs j ON j.id = v.job_id
  JOIN generations g ON g.id = v.generation_id AND g.fingerprint = 'before generations'
 WHERE v.dag_version_id = :dag_version_id;

-- name: name_generation!
UPDATE generations SET fingerprint = :fingerprint WHERE id = :id;

-- name: edges_elsewhere
-- Who reads whom, as far as the reader is of another DAG.
SELECT DISTINCT g.dag_name AS reader_dag, g.job_name AS reader_job, d.dag_name, d.job_name
  FROM (SELECT generation_id, dataset_uuid FROM subscriptions WHERE org_id = :org_id
        UNION SELECT generation_id, dataset_uuid FROM reads WHERE org_id = :org_id) s
  JOIN generations g ON g.id = s.generation_id AND g.dag_name <> :dag_name
  JOIN datasets d ON d.uuid = s.dataset_uuid;

-- name: kept
-- The generations of a DAG whose data is there.
SELECT id, job_name, fingerprint, built_at, created_at FROM generations
 WHERE org_id = :org_id AND dag_name = :dag_name AND purged_at IS NULL;

-- name: ensure_generations
-- By job: the generation of this fingerprint, made with a version of each output when it is new.
WITH asked AS (
    SELECT * FROM unnest(:job_names::text[], :fingerprints::text[], :outputs::integer[])
                  AS a (job_name, fingerprint, outputs)
), made AS (
    INSERT INTO generations (org_id, dag_name, job_name, fingerprint)
    SELECT :org_id, :dag_name, job_name, fingerprint FROM asked
        ON CONFLICT (org_id, dag_name, job_name, fingerprint) WHERE purged_at IS NULL DO NOTHING
    RETURNING id, job_name
), versions AS (
    INSERT INTO dataset_versions (version, dataset_uuid, generation_id)
    SELECT gen_random_uuid(), o.dataset_uuid, m.id
      FROM made m JOIN asked a ON a.job_name = m.job_name
     CROSS JOIN LATERAL generate_series(0, a.outputs - 1) AS n (output_index)
      JOIN unnest(:dataset_jobs::text[], :dataset_indexes::integer[], :dataset_uuids::uuid[])
           AS o (job_name, output_index, dataset_uuid)
        ON o.job_name = a.job_name AND o.output_index = n.output_index
    RETURNING version, dataset_uuid
), first AS (
    -- A dataset that is new has no other generation to point at.
    INSERT INTO datasets (uuid, org_id, dag_name, job_name, output_index, current_version)
    SELECT o.dataset_uuid, :org_id, :dag_name, o.job_name, o.output_index, v.version
      FROM versions v
      JOIN unnest(:dataset_jobs::text[], :dataset_indexes::integer[], :dataset_uuids::uuid[])
           AS o (job_name, output_index, dataset_uuid) ON o.dataset_uuid = v.dataset_uuid
        ON CONFLICT (uuid) DO NOTHING
)
SELECT job_name, id FROM made
UNION ALL
SELECT g.job_name, g.id
  FROM generations g JOIN asked a ON a.job_name = g.job_name AND a.fingerprint = g.fingerprint
 WHERE g.org_id = :org_id AND g.dag_name = :dag_name AND g.purged_at IS NULL;

-- name: unsubscribe!
WITH unread AS (DELETE FROM reads WHERE org_id = :org_id)
DELETE FROM subscriptions WHERE org_id = :org_id;

-- name: subscribe!
-- What is routed where, from the versions that are active or being built. Of a version that is being
-- built, and of what it replaces, the edges that lead into the part that is rebuilt are held; and all
-- of those whose turn has not come.
WITH live AS MATERIALIZED (
    SELECT a.dag_name, a.dag_version_id, v.job_id, v.generation_id,
           b.id IS NOT NULL AND NOT EXISTS (
               SELECT FROM dag_version_jobs n
                WHERE n.dag_version_id = b.to_version AND n.generation_id = v.generation_id) AS changes,
           false AS waits
      FROM active_dags a
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
      LEFT JOIN deploys b ON b.org_id = a.org_id AND b.dag_name = a.dag_name
                         AND b.status = 'Building'
     WHERE a.org_id = :org_id
    UNION ALL
    SELECT b.dag_name, b.to_version, v.job_id, v.generation_id, true,
           v.generation_id = ANY(b.waiting)
      FROM deploys b
      JOIN dag_version_jobs v ON v.dag_version_id = b.to_version
                             AND v.generation_id = ANY(b.building)
     WHERE b.org_id = :org_id AND b.status = 'Building'
), edges AS MATERIALIZED (
    SELECT l.*, e.input_index, e.filter, e.trigger, d.uuid AS dataset_uuid, d.current_version,
           CASE WHEN d.dag_name = l.dag_name THEN d.job_name END AS own_producer
      FROM live l
      JOIN jobs j ON j.id = l.job_id AND j.activation = 'reactive'
      JOIN input_edges e ON e.job_id = j.id
      JOIN datasets d ON d.uuid = coalesce(
           (SELECT uuid FROM datasets n WHERE n.org_id = :org_id AND n.name = e.dataset_name),
           e.dataset_uuid)
), producers AS MATERIALIZED (
    SELECT v.dag_version_id, j.name, v.generation_id, coalesce(l.changes, false) AS changes
      FROM (SELECT DISTINCT dag_version_id FROM live) s
      JOIN dag_version_jobs v ON v.dag_version_id = s.dag_version_id
      JOIN jobs j ON j.id = v.job_id
      LEFT JOIN live l ON l.dag_version_id = v.dag_version_id AND l.job_id = v.job_id
), found AS MATERIALIZED (
    SELECT coalesce(o.version, e.current_version) AS dataset_version, e.generation_id, e.input_index,
           e.dataset_uuid, e.job_id, e.filter, e.trigger,
           e.waits OR e.changes AND NOT coalesce(p.changes, false) AS held
      FROM edges e
      LEFT JOIN producers p ON p.dag_version_id = e.dag_version_id AND p.name = e.own_producer
      LEFT JOIN dataset_versions o ON o.generation_id = p.generation_id
                                  AND o.dataset_uuid = e.dataset_uuid
), read AS (
    INSERT INTO reads (generation_id, input_index, org_id, dataset_uuid, dataset_version, filter)
    SELECT DISTINCT ON (generation_id, input_index)
           generation_id, input_index, :org_id, dataset_uuid, dataset_version, filter
      FROM found WHERE NOT trigger
     ORDER BY generation_id, input_index, dataset_version
), began AS (
    -- What is said to be invalid from here on, it is given: what it reads, it reads later.
    INSERT INTO generation_inputs (generation_id, dataset_version, position)
    SELECT DISTINCT f.generation_id, f.dataset_version, v.position
      FROM found f JOIN dataset_versions v ON v.version = f.dataset_version
     WHERE f.trigger
        ON CONFLICT DO NOTHING
)
INSERT INTO subscriptions (dataset_version, generation_id, input_index, org_id, dataset_uuid, job_id,
                           filter, held)
SELECT dataset_version, generation_id, input_index, :org_id, dataset_uuid, job_id, filter, held
  FROM found WHERE trigger;

-- name: edges_within
-- Of these generations: which of them each is made of (none: of another), and whether that wakes it.
SELECT e.generation_id, v.generation_id AS above, e.trigger
  FROM (SELECT generation_id, dataset_version, true AS trigger FROM subscriptions
         WHERE generation_id = ANY(:generation_ids)
        UNION SELECT generation_id, dataset_version, false FROM reads
         WHERE generation_id = ANY(:generation_ids)) e
  LEFT JOIN dataset_versions v ON v.version = e.dataset_version
                              AND v.generation_id = ANY(:generation_ids);

-- name: owe_missing
-- What these generations were never given of what their inputs hold now is owed to the router: the
-- current partitions, and the updates that no partition stands for. What was said to be invalid
-- before a generation began to read is none of its business.
WITH missing AS MATERIALIZED (
    SELECT DISTINCT s.generation_id, e.id
      FROM subscriptions s
      JOIN jobs j ON j.id = s.job_id
      JOIN generation_inputs g ON g.generation_id = s.generation_id
                              AND g.dataset_version = s.dataset_version
     CROSS JOIN LATERAL current_events(s.dataset_version, NULL) e
     WHERE s.generation_id = ANY(:generation_ids) AND e.routed_at IS NOT NULL
       AND (e.invalidation_id IS NULL OR e.position > g.position)
       AND (j.execution_strategy <> 'PerPartition' OR e.partition_key IS NOT NULL)
       AND NOT EXISTS (SELECT FROM task_inputs i
                        WHERE i.event_id = e.id AND i.generation_id = s.generation_id)
), owed AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'route', jsonb_build_object('event_ids', jsonb_agg(id ORDER BY id),
                                       'generation_id', generation_id)
                    || CASE WHEN :again::uuid IS NULL THEN '{}'
                            ELSE jsonb_build_object('again', :again::uuid) END
      FROM (SELECT id, generation_id,
                   (row_number() OVER (PARTITION BY generation_id ORDER BY id) - 1) / 500 AS chunk
              FROM missing) c
     GROUP BY generation_id, chunk
)
SELECT generation_id, count(*) AS events FROM missing GROUP BY generation_id;

-- name: read_elsewhere$
-- Whether a definition of another DAG ever read one of these datasets.
SELECT EXISTS (SELECT FROM input_edges e JOIN jobs j ON j.id = e.job_id
                WHERE j.org_id = :org_id AND j.dag_name <> :dag_name
                  AND (e.dataset_uuid = ANY(:dataset_uuids)
                       OR e.dataset_name = ANY(ARRAY(SELECT name FROM datasets
                                                      WHERE uuid = ANY(:dataset_uuids)))));

-- name: forget_inputs!
-- Other DAGs are given these versions of datasets once more: another was current in between, and what
-- they made of these was replaced.
DELETE FROM task_inputs
 WHERE event_id = ANY(ARRAY(SELECT id FROM events WHERE dataset_version = ANY(:dataset_versions)))
   AND generation_id NOT IN (SELECT id FROM generations
                              WHERE org_id = :org_id AND dag_name = :dag_name);

-- name: readers_elsewhere
-- The generations of other DAGs that read these datasets. One whose turn in a build has not come is
-- given what its inputs hold when it does: what it only reads is not there yet.
SELECT DISTINCT s.generation_id
  FROM subscriptions s JOIN generations g ON g.id = s.generation_id
 WHERE s.org_id = :org_id AND s.dataset_uuid = ANY(:dataset_uuids) AND g.dag_name <> :dag_name
   AND NOT EXISTS (SELECT FROM deploys d
                    WHERE d.status = 'Building' AND s.generation_id = ANY(d.waiting));

-- name: redo_outlived!
-- What these generations made of versions that gave way, and of which the version that is current now
-- holds nothing, is invalid: they read it again, and find that it is gone. Ranges that are only
-- announced are left alone: whoever reads them would find them all the same. A partition from before
-- anybody wrote down what it was made of may be of a version that gave way. Of an output without
-- partitions, which is a table or only announced, what its job was given says what it passed on.
WITH given AS MATERIALIZED (
    SELECT g.generation_id, e.dataset_uuid, e.dataset_version AS version, e.range_start, e.range_end,
           e.partition_key
      FROM generation_inputs g
      JOIN events e ON e.dataset_version = g.dataset_version
      JOIN task_inputs i ON i.event_id = e.id AND i.generation_id = g.generation_id
     WHERE g.generation_id = ANY(:generation_ids)
       AND e.partition_key IS NOT NULL AND e.invalidation_id IS NULL
       AND NOT EXISTS (SELECT FROM subscriptions s
                        WHERE s.generation_id = g.generation_id
                          AND s.dataset_version = g.dataset_version)
       AND EXISTS (SELECT FROM dataset_versions o
                    WHERE o.generation_id = g.generation_id
                      AND NOT EXISTS (SELECT FROM partition_versions p
                                       WHERE p.dataset_version = o.version))
), read AS MATERIALIZED (
    SELECT s.generation_id, s.job_id, s.input_index, s.dataset_uuid, s.dataset_version, s.filter,
           r."start", r."end", r.key
      FROM subscriptions s
      JOIN dataset_versions o ON o.generation_id = s.generation_id
      JOIN partition_versions p ON p.dataset_version = o.version AND p.superseded_at IS NULL
     CROSS JOIN LATERAL jsonb_to_recordset(p.made_of)
                        AS r (input integer, version uuid, "start" bigint, "end" bigint, key text)
     WHERE s.generation_id = ANY(:generation_ids) AND r.input = s.input_index
       AND r.version <> s.dataset_version
       AND EXISTS (SELECT FROM dataset_versions v
                    WHERE v.version = r.version
                      AND (v.location IS NOT NULL OR EXISTS (
                           SELECT FROM partition_versions x WHERE x.dataset_version = v.version)))
    UNION ALL
    SELECT s.generation_id, s.job_id, s.input_index, s.dataset_uuid, s.dataset_version, s.filter,
           g.range_start, g.range_end, CASE WHEN g.range_start IS NULL THEN g.partition_key END
      FROM given g
      JOIN subscriptions s ON s.generation_id = g.generation_id
                          -- Under a name that moved it may be another dataset.
                          AND (s.dataset_uuid = g.dataset_uuid
                               OR (SELECT count(*) FROM subscriptions n
                                    WHERE n.generation_id = s.generation_id) = 1)
     WHERE g.version IN (SELECT v.version FROM dataset_versions v
                          WHERE v.location IS NOT NULL OR EXISTS (
                                SELECT FROM partition_versions x WHERE x.dataset_version = v.version))
    UNION ALL
    SELECT s.generation_id, s.job_id, s.input_index, s.dataset_uuid, s.dataset_version, s.filter,
           p.range_start, p.range_end, CASE WHEN p.range_start IS NULL THEN p.partition_key END
      FROM subscriptions s
      JOIN jobs j ON j.id = s.job_id
      JOIN datasets d ON d.uuid = s.dataset_uuid AND d.dag_name <> j.dag_name
      JOIN dataset_versions o ON o.generation_id = s.generation_id
      JOIN partition_versions p ON p.dataset_version = o.version AND p.superseded_at IS NULL
                               AND p.made_of = '[]'
     WHERE s.generation_id = ANY(:generation_ids)
       AND (SELECT count(*) FROM subscriptions n WHERE n.generation_id = s.generation_id) = 1
), held AS MATERIALIZED (
    SELECT v.version, range_agg(int8range(e.range_start, e.range_end, '[]')) AS ranges,
           array_agg(e.partition_key) FILTER (WHERE e.range_start IS NULL) AS keys
      FROM (SELECT DISTINCT dataset_version AS version FROM read) v
     CROSS JOIN LATERAL current_events(v.version, 0) e
     WHERE e.partition_key IS NOT NULL AND e.invalidation_id IS NULL
     GROUP BY v.version
), made AS MATERIALIZED (
    SELECT generation_id, job_id, input_index, dataset_uuid, dataset_version, filter,
           range_agg(int8range("start", "end", '[]')) AS ranges
      FROM read WHERE "start" IS NOT NULL
     GROUP BY generation_id, job_id, input_index, dataset_uuid, dataset_version, filter
), outlived AS MATERIALIZED (
    SELECT g.*, uuid7() AS id,
           CASE WHEN key IS NULL THEN 'row_range' ELSE 'partition' END AS scope,
           coalesce(key, first || '-' || last) AS part
      FROM (SELECT m.generation_id, m.job_id, m.input_index, m.dataset_uuid, m.dataset_version,
                   m.filter, lower(gone) AS first, upper(gone) - 1 AS last, NULL AS key
              FROM made m LEFT JOIN held h ON h.version = m.dataset_version
             CROSS JOIN LATERAL unnest(m.ranges - coalesce(h.ranges, '{}')) gone
            UNION
            SELECT r.generation_id, r.job_id, r.input_index, r.dataset_uuid, r.dataset_version,
                   r.filter, NULL, NULL, r.key
              FROM read r LEFT JOIN held h ON h.version = r.dataset_version
             WHERE r.key IS NOT NULL AND r.key <> ALL(coalesce(h.keys, '{}'))) g
), said AS (
    INSERT INTO data_invalidations (id, org_id, dataset_uuid, dataset_version, scope, partition_key,
                                    range_start, range_end, remade, reason, routed_at)
    SELECT o.id, j.org_id, o.dataset_uuid, o.dataset_version, o.scope, o.part, o.first, o.last, true,
           'the version that is current holds nothing here', clock_timestamp()
      FROM outlived o JOIN jobs j ON j.id = o.job_id
), made_again AS (
    INSERT INTO tasks (org_id, job_id, generation_id, dedupe_key, runtime, priority, inputs)
    SELECT j.org_id, j.id, o.generation_id, o.dataset_version || ':' || 'invalidation:' || o.id,
           j.runtime, j.priority,
           jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
               'input_index', o.input_index, 'dataset_uuid', o.dataset_uuid,
               'dataset_version', o.dataset_version, 'partition_key', o.part,
               'start', o.first, 'end', o.last, 'invalidation', o.id, 'replaces', true))
               || CASE WHEN o.filter IS NULL THEN '{}' ELSE jsonb_build_object('where', o.filter) END)
      FROM outlived o JOIN jobs j ON j.id = o.job_id
    RETURNING id, runtime, (inputs->0->>'invalidation')::uuid AS invalidation_id
), linked AS (
    INSERT INTO invalidation_tasks (invalidation_id, task_id)
    SELECT invalidation_id, id FROM made_again
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id ORDER BY id))
  FROM made_again GROUP BY runtime;

-- name: mark_built!
UPDATE generations SET built_at = clock_timestamp()
 WHERE id = ANY(:generation_ids) AND built_at IS NULL;

-- name: supersede_tasks!
-- What has not ended of these generations ends: at once, or with the next heartbeat. Whatever a
-- running attempt still reports commits nothing.
UPDATE tasks
   SET superseded = true, absorbs = NULL, pending_backpressure = false, reaped_at = NULL,
       next_retry_at = NULL,
       cancel_requested_at = CASE WHEN status = 'Running' THEN clock_timestamp() END,
       status = CASE WHEN status = 'Running' THEN 'Running' ELSE 'Canceled' END,
       completed_at = CASE WHEN status = 'Running' THEN completed_at ELSE clock_timestamp() END,
       error_code = CASE WHEN status = 'Running' THEN error_code ELSE 'superseded' END,
       error_message = CASE WHEN status = 'Running' THEN error_message ELSE :said END
 -- Compared as text: by the index of identities all that the generation ever did would be read.
 WHERE id = ANY(ARRAY(SELECT id FROM live_tasks
                       WHERE generation_id::text = ANY(:generation_ids::text[]) ORDER BY id))
   -- One that ended while this waited for its row has ended.
   AND (status IN ('Queued', 'Running') OR next_retry_at IS NOT NULL);

-- name: open_tasks$
SELECT count(*) FROM live_tasks WHERE generation_id::text = ANY(:generation_ids::text[]);

-- name: readers_of_dag
-- Jobs of other DAGs that read a dataset of this one, and as what.
SELECT DISTINCT g.dag_name, g.job_name,
       coalesce(d.name, d.dag_name || '.' || d.job_name || '.' || d.output_index) AS dataset
  FROM (SELECT generation_id, dataset_uuid FROM subscriptions WHERE org_id = :org_id
        UNION SELECT generation_id, dataset_uuid FROM reads WHERE org_id = :org_id) s
  JOIN datasets d ON d.uuid = s.dataset_uuid AND d.dag_name = :dag_name
  JOIN generations g ON g.id = s.generation_id AND g.dag_name <> d.dag_name
 ORDER BY 1, 2, 3;

-- name: revive_tasks!
-- Their generation counts again: what had been superseded goes on. Of one that was never built, what
-- failed gets another try.
WITH again AS (
    UPDATE tasks
       SET superseded = false, cancel_requested_at = NULL,
           -- It may have been told to stop: when it does, it is done again.
           drain_requested_at = CASE WHEN status = 'Running' THEN clock_timestamp() END,
           status = CASE WHEN status = 'Running' THEN 'Running' ELSE 'Queued' END,
           forgiven = CASE WHEN status = 'Running' THEN forgiven ELSE attempt END,
           completed_at = NULL, error_code = NULL, error_message = NULL, announcements = 0,
           queued_at = clock_timestamp(),
           announce_again_at = clock_timestamp() + interval '1 minute'
     WHERE id = ANY(ARRAY(
           SELECT id FROM tasks WHERE status = 'Running' AND superseded AND dedupe_key <> 'run'
              AND generation_id::text = ANY(:generation_ids::text[])
            UNION ALL
           SELECT id FROM tasks
            WHERE status IN ('Failed', 'Canceled') AND next_retry_at IS NULL AND dedupe_key <> 'run'
              AND (superseded OR generation_id = ANY(ARRAY(
                       SELECT id FROM generations
                        WHERE id = ANY(:generation_ids::uuid[]) AND built_at IS NULL)))
              AND generation_id = ANY(:generation_ids::uuid[])
            ORDER BY id))
       -- One that ended while this waited for its row has ended.
       AND status IN ('Running', 'Failed', 'Canceled')
       AND (backfill_id IS NULL OR EXISTS (
            SELECT FROM backfills b WHERE b.id = backfill_id AND b.status IN ('Running', 'Paused')))
    RETURNING id, runtime, status
)
INSERT INTO outbox (kind, payload)
SELECT 'enqueue', jsonb_build_object('runtime', runtime, 'task_ids', jsonb_agg(id))
  FROM (SELECT id, runtime, (row_number() OVER (PARTITION BY runtime ORDER BY id) - 1) / 500 AS chunk
          FROM again WHERE status = 'Queued') c
 GROUP BY runtime, chunk;

-- name: hand_over_tasks!
-- What has not ended of a generation goes on under the definition that the version has. A source that
-- runs ends its attempt first.
UPDATE tasks t
   SET job_id = n.new_id,
       -- One that was less urgent than its job still is.
       priority = CASE WHEN t.priority > o.priority THEN greatest(j.priority, t.priority)
                       ELSE j.priority END,
       drain_requested_at = CASE WHEN j.activation = 'source' AND t.status = 'Running'
                                 THEN clock_timestamp() ELSE t.drain_requested_at END
  FROM unnest(:generation_ids::uuid[], :job_ids::uuid[]) AS n (generation_id, new_id), jobs o, jobs j
 WHERE t.generation_id = n.generation_id AND t.job_id <> n.new_id
   AND o.id = t.job_id AND j.id = n.new_id
   AND t.id = ANY(ARRAY(SELECT id FROM live_tasks
                         WHERE generation_id::text = ANY(:generation_ids::text[]) ORDER BY id));

-- name: unfinished^
-- What these generations have left to do, and what of them failed for good. The run of a source has
-- no end, and begins when its version is active.
SELECT (SELECT count(*) FROM live_tasks
         WHERE generation_id::text = ANY(:generation_ids::text[]) AND dedupe_key <> 'run') AS tasks,
       (SELECT count(*) FROM outbox o
         WHERE o.kind = 'route'
           AND (o.payload->>'generation_id' = ANY(:generation_ids::text[])
                OR EXISTS (SELECT FROM jsonb_array_elements_text(
                               CASE WHEN jsonb_typeof(o.payload->'event_ids') = 'array'
                                    THEN o.payload->'event_ids' END) owed (id)
                             JOIN events e ON e.id = owed.id::bigint
                             JOIN dataset_versions v ON v.version = e.dataset_version
                            WHERE v.generation_id = ANY(:generation_ids::uuid[])))) AS routes,
       coalesce(array_length(f.ids, 1), 0) AS failed, f.ids[1] AS failed_task_id
  FROM (SELECT array_agg(id ORDER BY id) AS ids FROM tasks
         WHERE status IN ('Failed', 'Canceled') AND next_retry_at IS NULL AND NOT superseded
           AND error_code IS DISTINCT FROM 'dropped_by_backpressure'
           -- What was built before may have failures of its own, and served with them.
           AND dedupe_key <> 'run'
           AND generation_id = ANY(ARRAY(
               SELECT id FROM generations
                WHERE id = ANY(:generation_ids::uuid[]) AND built_at IS NULL))) f;
