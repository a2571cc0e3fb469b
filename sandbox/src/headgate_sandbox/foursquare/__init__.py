"""This package emulates the check-ins of Foursquare's v2 API; `sandbox.Foursquare` is the app."""
