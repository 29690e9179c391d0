-- name: seal!
UPDATE staging_tables SET parts = :parts::bigint[], rows = :rows WHERE name = :name;

-- name: drop_staging_table$
SELECT drop_staging_table(:name);
