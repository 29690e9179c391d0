-- Who saw personal columns of a dataset, whatever it was called then.
CREATE INDEX pii_access_of_uuid ON pii_access_log (org_id, dataset_uuid, accessed_at);
