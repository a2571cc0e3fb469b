"""The stores on one DynamoDB table; `docs/explanation/dynamodb.md` draws its keys."""
