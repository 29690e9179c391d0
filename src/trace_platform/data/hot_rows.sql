-- name: staged^
SELECT dataset_version, parts FROM staging_tables WHERE name = :name;

-- name: drop_staging_table$
SELECT drop_staging_table(:name);
