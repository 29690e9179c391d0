-- name: staged^
SELECT parts, rows FROM staging_tables WHERE name = :name;

-- name: drop_staging_table$
SELECT drop_staging_table(:name);
