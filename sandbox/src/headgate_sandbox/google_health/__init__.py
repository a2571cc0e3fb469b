"""This package emulates the Google Health API v4; `sandbox.GoogleHealth` is the application."""
