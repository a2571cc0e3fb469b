"""Emulated providers with limits and faults of their own, for development, tests and the demo."""

from headgate import Command

described = Command(
    "sandbox",
    "headgate_sandbox.command:sandbox",
    "Run an emulated provider, with the limits and faults of the real one.",
)
