"""Messages and deliveries on a SQL database."""
