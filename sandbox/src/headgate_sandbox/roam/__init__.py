"""This package emulates Roam's backend API; `sandbox.Roam` is the application."""
