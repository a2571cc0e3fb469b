"""Connections and their credentials on DynamoDB."""
