"""Roam's backend API, as far as reading goes: `sandbox.Roam` is the ASGI application."""
