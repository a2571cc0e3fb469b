"""The style, the script and the icon of the pages: read once, named by their content, kept long."""

from hashlib import blake2b
from pathlib import Path

import msgspec
from fastapi import Request
from fastapi.responses import Response

STATIC = Path(__file__).parents[1] / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _Asset(msgspec.Struct, frozen=True):
    content: bytes
    type: str
    version: str


class Assets:
    """The files in `static`, in memory; a request names one of them, never a path."""

    def __init__(self, base: str) -> None:
        """Serve them below `base`."""
        self._base = base
        self._files = {path.name: _read(path) for path in STATIC.rglob("*") if path.suffix in TYPES}

    def url(self, name: str) -> str:
        """Where the file is, as long as it has the content that it has now."""
        return f"{self._base}/static/{self._files[name].version}/{name}"

    async def serve(self, request: Request) -> Response:
        """One file."""
        asset = self._files.get(request.path_params["name"])
        if asset is None:
            return Response(status_code=404)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        # A page that an older or newer server made may ask here: it gets the file that there is,
        # but must not keep it under that name.
        if request.path_params["version"] == asset.version:
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return Response(asset.content, media_type=asset.type, headers=headers)


def _read(path: Path) -> _Asset:
    content = path.read_bytes()
    version = blake2b(content, digest_size=8).hexdigest()
    return _Asset(content, TYPES[path.suffix], version)
