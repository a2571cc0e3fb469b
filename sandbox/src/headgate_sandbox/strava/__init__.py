"""This package emulates Strava's API v3; `sandbox.Strava` is the ASGI application."""
