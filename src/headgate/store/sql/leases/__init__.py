"""Leased rows on a SQL database: the claim, the guarded write, the sweep."""
