"""What every layer uses: clock, ids, errors, encoding, logs, services. Imports no other layer."""
