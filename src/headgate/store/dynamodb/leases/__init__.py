"""Leased rows on DynamoDB: the claim, the guarded write, the sweep."""
