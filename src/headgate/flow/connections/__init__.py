"""Users' connections to providers, and the credentials in them."""
