"""The bodies of errors: a status code, its name, and a message."""

from http.client import responses

from starlette.responses import Response

from headgate.sandbox.kit.answers import Answered, json_answer


def error(status: int, message: str | None = None) -> Response:
    """One error; the message is the name of its status unless given."""
    name = responses.get(status, "Error")
    body = {"statusCode": status, "error": name, "message": message or name}
    return json_answer(body, status)


def refused(status: int, message: str) -> Answered:
    """The same, from however deep inside."""
    return Answered(error(status, message))
