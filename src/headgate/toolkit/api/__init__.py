"""Parts of an HTTP API: authenticated routes, problem documents, ETags, idempotent requests."""
