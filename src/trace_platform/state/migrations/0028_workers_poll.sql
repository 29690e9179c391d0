-- How long ago a worker last got at its queue: it may be heard and still take no task.
ALTER TABLE workers ADD COLUMN polled_s double precision NOT NULL DEFAULT 0;
