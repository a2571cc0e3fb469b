"""The claims of this process on leased rows, and the rescue of those whose worker was lost."""
