"""The budgets of providers: where a request asks for leave, and how much is used."""
