-- Files that gave way to newer ones within their generation are kept for a while, not for ever.

ALTER TABLE partition_versions
    -- From then on no reader of a moment in the past is given it.
    ADD COLUMN retired_at        timestamptz,
    -- Its files are deleted. The row stays for a while: it says which moments cannot be read any more.
    ADD COLUMN files_deleted_at  timestamptz;
CREATE INDEX partition_versions_superseded ON partition_versions
    (dataset_version, partition_key, superseded_at)
    WHERE superseded_at IS NOT NULL AND retired_at IS NULL;
CREATE INDEX partition_versions_retired ON partition_versions (retired_at)
    WHERE retired_at IS NOT NULL AND files_deleted_at IS NULL;
CREATE INDEX partition_versions_deleted ON partition_versions (files_deleted_at)
    WHERE files_deleted_at IS NOT NULL;

-- No moment before this one can be read: rows of files that were deleted are forgotten up to here.
ALTER TABLE dataset_versions ADD COLUMN past_from timestamptz;
