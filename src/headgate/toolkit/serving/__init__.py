"""An HTTP server inside an event loop that also runs workers: its limits, proxies, and stop."""
