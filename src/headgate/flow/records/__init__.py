"""The stored records: read, listed and exported."""
