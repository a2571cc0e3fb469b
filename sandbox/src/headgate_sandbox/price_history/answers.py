"""This module builds the backend's error bodies: a status code, its name, and a message."""

from http.client import responses

from starlette.responses import Response

from headgate_sandbox.kit.answers import Answered, json_answer


def error(status: int, message: str | None = None) -> Response:
    """An error; its message is the name of its status unless given."""
    name = responses.get(status, "Error")
    body = {"statusCode": status, "error": name, "message": message or name}
    return json_answer(body, status)


def refused(status: int, message: str) -> Answered:
    """The same error, to raise anywhere inside an endpoint."""
    return Answered(error(status, message))
