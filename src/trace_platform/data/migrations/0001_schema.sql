-- Hot data lives in `public`. The owner makes tables; workers write rows; queries only read.
GRANT USAGE ON SCHEMA public TO trace_data_writer, trace_query;

-- Also for every table that the owner makes later.
ALTER DEFAULT PRIVILEGES IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO trace_data_writer;
ALTER DEFAULT PRIVILEGES IN SCHEMA public
    GRANT USAGE, SELECT ON SEQUENCES TO trace_data_writer;
ALTER DEFAULT PRIVILEGES IN SCHEMA public
    GRANT SELECT ON TABLES TO trace_query;

-- Functions are open to everyone unless we say otherwise.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

-- The ledger of migrations was made before the lines above, and is nobody else's business.
REVOKE ALL ON TABLE schema_migrations FROM trace_data_writer, trace_query;
