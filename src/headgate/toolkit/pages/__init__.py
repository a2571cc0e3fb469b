"""Parts of a page: templates, static files, and responses with headers that protect a browser."""
