-- The Dispatcher drops the tables of generations that were purged, and shows alerts: nothing else.
GRANT USAGE ON SCHEMA public TO trace_data_janitor;
GRANT EXECUTE ON FUNCTION drop_hot_table(uuid) TO trace_data_janitor;
GRANT SELECT ON alert_events TO trace_data_janitor;
