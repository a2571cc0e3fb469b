"""Schema migrations: forward only, never edited once released."""
