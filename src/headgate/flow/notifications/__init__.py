"""What people are told about jobs."""
