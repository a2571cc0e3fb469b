"""Static files of the pages: read once, named by their content, cached by browsers for a year."""

from hashlib import blake2b
from pathlib import Path

import msgspec
from fastapi import Request
from fastapi.responses import Response

from headgate.base.errors import InvalidInput

STATIC = Path(__file__).parents[1] / "static"
#: The path of a static file.
PATH = "/static/{version}/{name}"
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
    """Files in memory; a request names one of them, never a path."""

    def __init__(self) -> None:
        """Load the files that all pages share."""
        self._files: dict[str, _Asset] = {}
        self.add(STATIC)

    def add(self, folder: Path) -> None:
        """Serve the files of a folder too; files with the same name must have the same content."""
        for path in sorted(folder.rglob("*")):
            if path.suffix in TYPES:
                asset = _read(path)
                if self._files.setdefault(path.name, asset) != asset:
                    raise InvalidInput("static", f"two files are called {path.name}: rename {path}")

    def path(self, name: str) -> str:
        """Return the path of the file with its present content."""
        return PATH.format(version=self._files[name].version, name=name)

    async def serve(self, request: Request) -> Response:
        """Return one file."""
        asset = self._files.get(request.path_params["name"])
        if asset is None:
            return Response(status_code=404)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        # A page from an older or newer server may ask for another version. It gets the present
        # file, but must not cache it under that version.
        if request.path_params["version"] == asset.version:
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return Response(asset.content, media_type=asset.type, headers=headers)


def _read(path: Path) -> _Asset:
    content = path.read_bytes()
    version = blake2b(content, digest_size=8).hexdigest()
    return _Asset(content, TYPES[path.suffix], version)
