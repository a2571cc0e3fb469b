"""This package emulates reading from Roam's backend API; `sandbox.Roam` is the application."""
