-- name: forget!
DELETE FROM derived_lineage WHERE dag_version_id = :dag_version_id;

-- name: keep!
INSERT INTO derived_lineage (dag_version_id, job_id, output_index, derivation)
SELECT :dag_version_id, * FROM unnest(:job_ids::uuid[], :outputs::integer[], :derivations::jsonb[]);

-- name: of_version
SELECT j.name AS job_name, l.output_index, l.derivation::text AS derivation
  FROM derived_lineage l JOIN jobs j ON j.id = l.job_id
 WHERE l.dag_version_id = :dag_version_id ORDER BY j.name, l.output_index;

-- name: of_active
-- Of the active versions, with the datasets that each output is and each input reads. A name is whoever
-- has it now.
SELECT d.uuid AS dataset_uuid, l.derivation::text AS derivation,
       ARRAY(SELECT coalesce((SELECT uuid FROM datasets n
                               WHERE n.org_id = a.org_id AND n.name = e.dataset_name), e.dataset_uuid)
               FROM input_edges e WHERE e.job_id = l.job_id ORDER BY e.input_index) AS inputs
  FROM active_dags a
  JOIN derived_lineage l ON l.dag_version_id = a.dag_version_id
  JOIN jobs j ON j.id = l.job_id
  JOIN datasets d ON d.org_id = a.org_id AND d.dag_name = a.dag_name AND d.job_name = j.name
                 AND d.output_index = l.output_index
 WHERE a.org_id = :org_id ORDER BY d.uuid;
