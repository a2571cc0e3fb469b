"""The databases under the stores: SQLite and Postgres, their time, types and statements."""
