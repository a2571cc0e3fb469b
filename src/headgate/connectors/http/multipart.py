"""Encodes a form with files as a multipart body (RFC 7578).

The boundary is a hash of the content: equal forms give equal bytes, and nobody can put the boundary
into a file on purpose, because that would change it.
"""

from collections.abc import Mapping
from hashlib import sha256

from headgate.base.errors import InvalidInput
from headgate.ports.http import File


def encode(form: Mapping[str, str | File]) -> tuple[bytes, str]:
    """Return the body and its content type."""
    parts = [_part(name, value) for name, value in form.items()]
    boundary = sha256(b"".join(head + content for head, content in parts)).hexdigest()[:32]
    mark = b"--" + boundary.encode()
    body = b"".join(mark + b"\r\n" + head + content + b"\r\n" for head, content in parts)
    return body + mark + b"--\r\n", f"multipart/form-data; boundary={boundary}"


def _part(name: str, value: str | File) -> tuple[bytes, bytes]:
    head = f'Content-Disposition: form-data; name="{_quote(name)}"'
    if isinstance(value, str):
        return f"{head}\r\n\r\n".encode(), value.encode()
    if not (value.media_type.isascii() and value.media_type.isprintable()):
        raise InvalidInput("multipart", f"{value.media_type[:40]!r} is not a media type")
    head += f'; filename="{_quote(value.name)}"\r\nContent-Type: {value.media_type}'
    return f"{head}\r\n\r\n".encode(), value.content


def _quote(text: str) -> str:
    """Encode quotes and line breaks as percent codes, as browsers do."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
