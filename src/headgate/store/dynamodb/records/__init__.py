"""What jobs bring, on DynamoDB: records, coverage, receipts and marks."""
