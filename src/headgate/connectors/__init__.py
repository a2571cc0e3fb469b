"""What connectors are built on: the HTTP client, authentication, paging, and the vault."""
