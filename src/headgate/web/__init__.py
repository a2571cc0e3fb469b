"""The HTTP server: the API under /v1, the pages, the metrics, and what systems add."""
