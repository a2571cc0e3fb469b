"""This package emulates a small web shop with HTML pages; `sandbox.Shop` is the app."""
