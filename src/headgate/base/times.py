"""Times as people read them."""

from datetime import datetime


def format_time(at: datetime) -> str:
    """A time for people, with its zone; without seconds if they are zero."""
    return f"{at:%Y-%m-%d %H:%M} UTC" if at.second == 0 else f"{at:%Y-%m-%d %H:%M:%S} UTC"
