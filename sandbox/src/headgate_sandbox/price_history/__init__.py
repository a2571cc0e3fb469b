"""This package emulates a price history's batch ingest; `sandbox.PriceHistory` is the app."""
