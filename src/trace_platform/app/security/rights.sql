-- What Trace's roles may do in this database: by role and right, the objects.
WITH roles AS (
    SELECT oid, rolname, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,
           rolconnlimit FROM pg_roles WHERE rolname LIKE 'trace\_%'
), found AS (
    SELECT r.rolname AS role, p.privilege || ' on table' AS rights,
           regexp_replace(n.nspname || '.' || c.relname,
                          '(hot|staging|claims)_[0-9][0-9a-f_]*$', '\1_N') AS object
      FROM roles r
     CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) p (privilege)
     WHERE c.relkind IN ('r', 'v', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
       AND n.nspname NOT LIKE 'pg\_toast%' AND NOT r.rolsuper AND c.relowner <> r.oid
       AND has_table_privilege(r.oid, c.oid, p.privilege)
    UNION
    SELECT r.rolname, p.privilege || ' on columns',
           n.nspname || '.' || c.relname || '(' || string_agg(a.attname, ', ' ORDER BY a.attnum) || ')'
      FROM roles r
     CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) p (privilege)
     WHERE a.attacl IS NOT NULL AND NOT r.rolsuper AND c.relowner <> r.oid
       AND NOT has_table_privilege(r.oid, c.oid, p.privilege)
       AND has_column_privilege(r.oid, c.oid, a.attnum, p.privilege)
       AND n.nspname NOT IN ('pg_catalog', 'information_schema')
     GROUP BY r.rolname, p.privilege, n.nspname, c.relname
    UNION
    SELECT r.rolname, 'EXECUTE', n.nspname || '.' || f.proname
      FROM roles r CROSS JOIN pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
     WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND NOT r.rolsuper
       AND f.proowner <> r.oid AND has_function_privilege(r.oid, f.oid, 'EXECUTE')
    UNION
    SELECT r.rolname, p.privilege || ' on schema', n.nspname
      FROM roles r CROSS JOIN pg_namespace n CROSS JOIN unnest(ARRAY['USAGE', 'CREATE']) p (privilege)
     WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND NOT r.rolsuper
       AND n.nspowner <> r.oid AND has_schema_privilege(r.oid, n.oid, p.privilege)
    UNION
    SELECT r.rolname, 'USAGE on language', l.lanname
      FROM roles r CROSS JOIN pg_language l
     WHERE l.lanpltrusted AND l.lanname <> 'sql' AND NOT r.rolsuper
       AND has_language_privilege(r.oid, l.oid, 'USAGE')
    UNION
    SELECT r.rolname, p.privilege || ' on database', current_database()
      FROM roles r CROSS JOIN unnest(ARRAY['CONNECT', 'CREATE', 'TEMPORARY']) p (privilege)
     WHERE NOT r.rolsuper AND has_database_privilege(r.oid, current_database(), p.privilege)
    UNION
    SELECT r.rolname, 'attribute', x.name
      FROM roles r CROSS JOIN LATERAL (VALUES
           ('superuser', r.rolsuper), ('creates databases', r.rolcreatedb),
           ('creates roles', r.rolcreaterole), ('replicates', r.rolreplication),
           ('bypasses row security', r.rolbypassrls),
           ('any number of connections', r.rolconnlimit = -1 AND NOT r.rolsuper)) x (name, has)
     WHERE x.has AND (r.rolsuper OR has_database_privilege(r.oid, current_database(), 'CONNECT'))
)
SELECT role, rights, string_agg(object, ', ' ORDER BY object COLLATE "C") AS objects
  FROM found GROUP BY role, rights;
