"""Renders templates to HTML responses: escaped, with an ETag and strict security headers.

No page contains inline scripts or styles, and none may be framed. A link is a secret, so no page
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
#: How often a page polls while work goes on.
POLL_WORKING_S = 5
#: How often it polls while there is nothing but waiting.
POLL_RESTING_S = 10
#: The header by which the page's script requests only the part that changes.
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
    # No other site learns the link, and our own forms still say where they come from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "X-Robots-Tag": "noindex, nofollow",
}


#: Days and times as `flow/jobs/explain.py` writes them.
_TIME = re.compile(
    r"\b(?P<day>\d{4}-\d{2}-\d{2})\b(?: (?P<clock>\d{2}:\d{2}(?::\d{2})?) UTC\b)?", re.ASCII
)


class Mark(msgspec.Struct, frozen=True):
    """A state at a glance: a word, an icon and a tone, so that no colour stands alone."""

    word: str
    icon: str
    tone: str


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One number on a page, with its label."""

    name: str
    label: str
    value: str
    note: str = ""


class Button(msgspec.Struct, frozen=True):
    """The link of a page that shows one message."""

    text: str
    href: str


class Pages:
    """Renders the templates of one folder, and those that all pages share."""

    def __init__(self, site: Site, folder: Path) -> None:
        """Take templates from `folder/templates`, and their static files from `folder/static`."""
        #: The path of the public URL; empty unless the site is served below a path.
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
        self._templates.filters["mark_times"] = mark_times

    def render(self, template: str, **values: object) -> str:
        """Render the template with these values, escaped."""
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
        """Return a page with one message; `operator` is a note for whoever runs the server."""
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
        """Return the page for every link that does not work, whatever is wrong with it."""
        return self.message(
            404,
            "This link does not work",
            "It is incomplete, or the page that it led to is gone. Ask for a new link.",
        )

    def redirect(self, path: str) -> Response:
        """Redirect to one of our own paths, with a GET."""
        return RedirectResponse(f"{self.base}{path}", 303, HEADERS)


def mark_times(text: str) -> Markup:
    """Escape the text, and mark up its days and times so that no line break splits them."""
    return Markup(_TIME.sub(_mark_time, str(escape(text))))


def _mark_time(match: re.Match[str]) -> str:
    day, clock = match["day"], match["clock"]
    if clock is None:
        return f'<time datetime="{day}" class="whole">{day}</time>'
    text = f'<span class="whole">{day}</span> <span class="whole">{clock} UTC</span>'
    return f'<time datetime="{day}T{clock}Z">{text}</time>'


def etag(content: str) -> str:
    """Return a strong entity tag: equal content, equal tag."""
    return f'"{blake2b(content.encode(), digest_size=16).hexdigest()}"'


def page_response(request: Request, content: str) -> Response:
    """Return the page with its ETag, or 304 if the browser has that version."""
    tag = etag(content)
    headers = {**HEADERS, "ETag": tag, "Vary": FRAGMENT_HEADER}
    tags = request.headers.get("If-None-Match", "")
    # A proxy that compresses makes a tag weak; the content is still the same.
    known = {each.strip().removeprefix("W/") for each in tags.split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(content, headers=headers)
