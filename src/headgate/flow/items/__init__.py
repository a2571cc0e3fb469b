"""Items: things that are fetched one by one, each with a life of its own."""
