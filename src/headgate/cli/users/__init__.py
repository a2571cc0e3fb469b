"""`headgate user …`, `connection …`, `api-key …` and `keys …`."""
