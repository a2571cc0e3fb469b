"""The HTTP client of connectors: one request under the budget, its pages and its answers."""
