"""The outbox: messages enqueued in an application's transaction, and their delivery to targets."""
