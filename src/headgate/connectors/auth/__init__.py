"""How a provider knows whose request it is: OAuth2, and tokens that users copy."""
