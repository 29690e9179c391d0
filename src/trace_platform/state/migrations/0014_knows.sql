-- An attempt also knows what it does not read: how far the other inputs were that wake its job, and how
-- often its generation was told to do something once more. What it makes may take the place of nothing
-- whose maker knew more. Empty where all of that is in what was read.
ALTER TABLE generations ADD COLUMN redone bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN knows jsonb NOT NULL DEFAULT '[]';
ALTER TABLE partition_versions ADD COLUMN knows jsonb NOT NULL DEFAULT '[]';
-- Of partitions that are no ranges: which hold a key, whatever their names are.
CREATE INDEX partition_versions_made_of ON partition_versions USING gin (made_of jsonb_path_ops)
 WHERE superseded_at IS NULL AND range_start IS NULL;
