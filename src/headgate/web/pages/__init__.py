"""The pages that end users see: how their import goes, and connecting an account."""
