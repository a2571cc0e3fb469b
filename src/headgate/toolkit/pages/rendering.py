"""From a template to an answer: escaped, tagged with its content, and locked down for the browser.

No page holds a script or a style of its own, and none may be framed; a link is a secret, so no page
tells another site where its visitor came from.
"""

import re
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

import jinja2
import msgspec
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from headgate.toolkit.site import Site

TEMPLATES = Path(__file__).parents[1] / "templates"
#: How soon a page asks again: while something is worked on, and while it rests.
POLL_WORKING_S, POLL_RESTING_S = 5, 10
#: Asks for the part of the page that changes, alone.
FRAGMENT_HEADER = "X-Headgate-Fragment"

_POLICY = (
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Nobody else learns the link; and our own forms say where they come from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "X-Robots-Tag": "noindex, nofollow",
}


#: As `flow/explain.py` writes them.
_TIME = re.compile(
    r"\b(?P<day>\d{4}-\d{2}-\d{2})\b(?: (?P<clock>\d{2}:\d{2}(?::\d{2})?) UTC\b)?", re.ASCII
)


class Mark(msgspec.Struct, frozen=True):
    """A state at a glance: a word, an icon and a tone, never a colour alone."""

    word: str
    icon: str
    tone: str


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One number."""

    name: str
    label: str
    value: str
    note: str = ""


class Button(msgspec.Struct, frozen=True):
    """Where to go from a page that says only one thing."""

    text: str
    href: str


class Pages:
    """Renders the templates of a folder, and those that all pages share."""

    def __init__(self, site: Site, folder: Path) -> None:
        """Templates are in `folder/templates`, the files that they name in `folder/static`."""
        #: Empty, unless the server lives below a path of another one.
        self.base = urlsplit(site.public_url).path.rstrip("/")
        site.assets.add(folder / "static")
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader([folder / "templates", TEMPLATES]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(
            asset=lambda name: self.base + site.assets.path(name), base=self.base
        )
        self._templates.filters["marked_times"] = marked_times

    def render(self, template: str, **values: object) -> str:
        """The template with these values, escaped."""
        return self._templates.get_template(template).render(values)

    def message(
        self,
        status: int,
        heading: str,
        *texts: str,
        button: Button | None = None,
        operator: str | None = None,
        tone: str = "quiet",
    ) -> Response:
        """A page that says one thing; `operator` is for whoever runs the server."""
        body = self.render(
            "message.html",
            heading=heading,
            texts=texts,
            button=button,
            operator=operator,
            tone=tone,
        )
        return HTMLResponse(body, status, HEADERS)

    def not_found(self) -> Response:
        """The same for every link that opens nothing, whatever is wrong with it."""
        return self.message(
            404,
            "There is nothing here",
            "This link is not complete, or what it led to is gone. Ask for a new one.",
        )

    def redirect(self, path: str) -> Response:
        """Go on with a GET of one of our own paths."""
        return RedirectResponse(f"{self.base}{path}", 303, HEADERS)


def marked_times(text: str) -> Markup:
    """The text, escaped, with its days and times marked as such, so that none is torn apart."""
    return Markup(_TIME.sub(_marked, str(escape(text))))


def _marked(found: re.Match[str]) -> str:
    day, clock = found["day"], found["clock"]
    if clock is None:
        return f'<time datetime="{day}" class="whole">{day}</time>'
    shown = f'<span class="whole">{day}</span> <span class="whole">{clock} UTC</span>'
    return f'<time datetime="{day}T{clock}Z">{shown}</time>'


def etag(content: str) -> str:
    """A strong entity tag: equal content, equal tag."""
    return f'"{blake2b(content.encode(), digest_size=16).hexdigest()}"'


def tagged(request: Request, content: str) -> Response:
    """The content with its tag; 304 where the asker has it already."""
    tag = etag(content)
    headers = {**HEADERS, "ETag": tag, "Vary": FRAGMENT_HEADER}
    asked = request.headers.get("If-None-Match", "")
    # A proxy that compresses makes a tag weak: it is still the same content.
    known = {each.strip().removeprefix("W/") for each in asked.split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(content, headers=headers)
