"""The Google Health API v4, emulated: `sandbox.GoogleHealth` is the ASGI application."""
