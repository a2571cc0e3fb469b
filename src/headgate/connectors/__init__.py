"""What connectors stand on: the HTTP client, the ways to authenticate, and the vault."""
