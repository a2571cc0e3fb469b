"""Protocols: what the engine needs from a store, a limiter, a signal, a source, a destination."""
