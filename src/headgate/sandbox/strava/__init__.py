"""Strava's API v3, emulated: `sandbox.Strava` is the ASGI application."""
