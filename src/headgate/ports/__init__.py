"""Protocols only: what the engine asks of a store, a signal, a source and a destination."""
