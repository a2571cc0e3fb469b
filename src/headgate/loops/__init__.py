"""Background services of a worker: lanes, heartbeat, sweeper, and the supervisor that runs them."""
