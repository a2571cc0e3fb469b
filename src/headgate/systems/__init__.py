"""The systems that ship with Headgate: one folder each, built on the public API only.

They are found like systems of others, by the entry points of `headgate.systems`; no other package
imports them by name.
"""
