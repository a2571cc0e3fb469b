"""Foursquare's v2 API, as far as check-ins go: `sandbox.Foursquare` is the ASGI application."""
