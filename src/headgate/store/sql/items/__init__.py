"""Items and their documents on a SQL database."""
