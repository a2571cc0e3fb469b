"""The ledgers of budgets on a SQL database."""
