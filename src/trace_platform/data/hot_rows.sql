-- name: staged^
SELECT parts, rows FROM staging_tables WHERE name = :name;
