"""The ledgers of budgets on DynamoDB."""
