-- The generations that a build under way concerns: those that give way when it ends, and those that
-- take their place. What is done by hand to one of them now would be lost with it, or come too late.
CREATE VIEW rebuilds AS
    SELECT v.generation_id
      FROM deploys b
      JOIN active_dags a ON a.org_id = b.org_id AND a.dag_name = b.dag_name
      JOIN dag_version_jobs v ON v.dag_version_id = a.dag_version_id
     WHERE b.status = 'Building'
       AND NOT EXISTS (SELECT FROM dag_version_jobs n
                        WHERE n.dag_version_id = b.to_version AND n.generation_id = v.generation_id)
    UNION ALL
    SELECT unnest(building) FROM deploys WHERE status = 'Building';
GRANT SELECT ON rebuilds TO trace_dispatcher;
