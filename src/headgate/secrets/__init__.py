"""Encryption keys, the vault of credentials, private files, and signed links."""
