"""Connections and their credentials on a SQL database."""
