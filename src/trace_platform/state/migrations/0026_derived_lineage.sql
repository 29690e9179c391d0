-- What the columns of a version's outputs are made of, as far as its file tells (sql/derivation.py). An
-- origin is the number of an input of the job and a column of it. Kept with each deploy of the version,
-- since the columns of what it reads may have become known.
CREATE TABLE derived_lineage (
    dag_version_id  uuid NOT NULL REFERENCES dag_versions,
    job_id          uuid NOT NULL REFERENCES jobs,
    output_index    integer NOT NULL,
    derivation      jsonb NOT NULL,
    PRIMARY KEY (dag_version_id, job_id, output_index)
);
GRANT SELECT, INSERT, DELETE ON derived_lineage TO trace_dispatcher;
