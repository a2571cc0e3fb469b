"""Use cases, in the order of the data: submit, step (extract, deliver, commit), recover."""
