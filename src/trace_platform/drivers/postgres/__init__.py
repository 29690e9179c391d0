"""Postgres: connections, named queries in `.sql` files, migrations."""
