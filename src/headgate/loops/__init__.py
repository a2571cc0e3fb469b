"""Background services of a worker: what works, what keeps house, and the supervisor of both."""
