"""The systems that ship with Headgate: one folder each, written on the public API alone.

They are found as anybody else's are, through the entry points of `headgate.systems`; nothing here
is imported by name from elsewhere.
"""
