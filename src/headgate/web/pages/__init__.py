"""The pages for end users: the progress of an import, and connecting an account."""
