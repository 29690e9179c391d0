-- When the sink of a buffered dataset has written a batch. Until then its record and its rows are kept,
-- however old they are: nothing else has them.
ALTER TABLE buffer_publishes ADD COLUMN taken_at timestamptz;
CREATE INDEX buffer_publishes_taken ON buffer_publishes (taken_at) WHERE taken_at IS NOT NULL;
