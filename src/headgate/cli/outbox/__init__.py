"""`headgate outbox …` and `headgate notify …`."""
