"""Users, their API keys and idempotent requests on DynamoDB."""
