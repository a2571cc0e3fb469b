"""`headgate job …` and `headgate backfill …`."""
