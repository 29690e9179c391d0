-- name: drop_hot_table$
SELECT drop_hot_table(:version);
