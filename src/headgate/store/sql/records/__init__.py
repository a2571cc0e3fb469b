"""What jobs bring, on a SQL database: records, coverage, receipts and marks."""
