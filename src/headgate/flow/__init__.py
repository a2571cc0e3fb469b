"""Use cases, in the order data moves: submit, step (extract, commit), control, recover, inspect."""
