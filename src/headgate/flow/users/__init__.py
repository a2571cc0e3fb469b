"""Users, their erasure, and the API keys."""
