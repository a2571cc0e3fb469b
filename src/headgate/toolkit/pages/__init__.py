"""Parts of a page: templates, static files, and answers that are safe in a browser."""
