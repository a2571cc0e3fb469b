"""The ground: clock, ids, errors, encoding, logs, services. Imports nothing of Headgate."""
