"""What delivers messages: over HTTP, and as e-mail."""
