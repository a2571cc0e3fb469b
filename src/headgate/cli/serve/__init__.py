"""Commands that run: the worker, the server, its metrics, the sandboxes, and functions on AWS."""
