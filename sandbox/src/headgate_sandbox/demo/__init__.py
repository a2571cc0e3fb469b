"""`headgate demo`: an import of a user's history between two sandboxes, from beginning to end."""

from headgate import Command

described = Command(
    "demo",
    "headgate_sandbox.demo.command:demo",
    "Import two years of history between two sandboxes, with a progress bar and a page.",
)
