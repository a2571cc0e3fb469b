"""Whole systems made of Headgate: applications that are ready to run, on the public API alone."""
