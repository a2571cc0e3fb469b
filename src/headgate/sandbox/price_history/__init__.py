"""The batch ingest of a price history, emulated: `sandbox.PriceHistory` is the ASGI application."""
