"""Programs that are measured side by side: Headgate, the bare drivers, and peers of Headgate.

Each is a script with two roles, a client that submits and a worker, and all of them speak the
protocol of `protocol.py`. A peer's script runs under the peer's own interpreter, so it imports
nothing of Headgate.
"""
