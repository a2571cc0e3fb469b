"""Users, their API keys, erasures and notifications on a SQL database."""
