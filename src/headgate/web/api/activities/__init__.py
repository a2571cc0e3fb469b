"""Activities and their streams: finding them, serving them, and what an operator may do."""

from headgate.web.api.activities.routes import routes

__all__ = ["routes"]
