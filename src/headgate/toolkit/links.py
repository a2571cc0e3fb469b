"""Links that let a person in without a login: signed, for one purpose, and good for a while.

A link is a capability: whoever holds it may look at one thing, or connect one account for one user.
So it is never logged, and a page that it opens sends no referrer. It is signed with a key derived
from those that credentials are encrypted with, which are never used for it themselves. The newest
key signs; a link signed with an older one is good as long as that key is in the ring.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import HeadgateError, NotFound
from headgate.connectors.keys import KeyRing

PROGRESS_PATH, CONNECT_PATH = "/p/", "/connect/"
#: How long a link is good for, unless it is told otherwise.
LINK_TERM = timedelta(days=7)
#: To connect an account; short, because it is meant for one person, now.
CONNECT_TERM = timedelta(hours=1)
#: A browser that was sent to a provider's page is known for so long when it comes back. The page
#: has to be answered much sooner; but until then a late answer can still be told what to do.
SESSION_TERM = timedelta(hours=1)
#: Longer than any that we make: three ids of 200 characters, twice encoded.
TOKEN_LENGTH_MAX = 4096

#: What sets these keys apart from all others that are derived from the same ones.
_LABEL = b"headgate links, version 1"


class LinkExpired(HeadgateError):
    """This link has expired; ask for a new one."""


class LinkInvalid(NotFound):
    """This is not a link of ours."""


class ProgressLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="progress", omit_defaults=True
):
    """Lets its holder look at one job, and retry it."""

    job_id: str
    user_id: str
    expires_at: datetime


class PageLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="page", omit_defaults=True
):
    """Lets its holder look at one thing of one kind, on a page of a system's."""

    kind: str
    id: str
    user_id: str
    expires_at: datetime


class ConnectLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="connect", omit_defaults=True
):
    """Lets its holder connect an account for one user."""

    source: str
    user_id: str
    #: One that is to be connected again; None: whichever account they sign in to.
    connection_id: str | None = None
    #: A job of the user's to be retried once they are connected.
    retry_job: str | None = None
    expires_at: datetime


class ConnectSession(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="session", omit_defaults=True
):
    """A browser on its way to a provider's page and back; kept in a cookie."""

    link: ConnectLink
    #: Nobody else's browser has the same.
    nonce: str
    expires_at: datetime


Link = ProgressLink | PageLink | ConnectLink | ConnectSession
L = TypeVar("L", ProgressLink, PageLink, ConnectLink, ConnectSession)


class _Signed(msgspec.Struct, frozen=True):
    """What is signed: a link, and which key signs it."""

    key: str
    link: Link


class Links:
    """Makes links and opens them."""

    def __init__(self, keys: KeyRing, clock: Clock) -> None:
        """Sign with the newest of `keys`; `clock` judges whether a link has expired."""
        self._newest = keys.newest
        self._keys = {key_id: _derived(keys, key_id) for key_id in keys.ids}
        self._clock = clock

    def __repr__(self) -> str:
        return f"Links({', '.join(self._keys)})"

    # ---- making them ---------------------------------------------------------------------------

    def progress(self, *, job_id: str, user_id: str, ttl: timedelta = LINK_TERM) -> str:
        """The path of the page that shows a job to its user."""
        expires_at = self._after(ttl)
        link = ProgressLink(job_id=job_id, user_id=user_id, expires_at=expires_at)
        return PROGRESS_PATH + self._sign(link)

    def page(self, kind: str, id: str, *, user_id: str, ttl: timedelta = LINK_TERM) -> str:
        """The last part of the path of a page that shows the thing of that kind to its user."""
        return self._sign(PageLink(kind=kind, id=id, user_id=user_id, expires_at=self._after(ttl)))

    def connect(
        self,
        *,
        source: str,
        user_id: str,
        connection_id: str | None = None,
        retry_job: str | None = None,
        ttl: timedelta = CONNECT_TERM,
    ) -> str:
        """The path that sends a user to a provider's page, to connect an account or do so again."""
        link = ConnectLink(
            source=source,
            user_id=user_id,
            connection_id=connection_id,
            retry_job=retry_job,
            expires_at=self._after(ttl),
        )
        return self.again(link)

    def again(self, link: ConnectLink) -> str:
        """The path of a link that was opened before; it expires when it always did."""
        return CONNECT_PATH + self._sign(link)

    def followed_by(self, link: ConnectLink, job_id: str) -> str:
        """The path of the page that shows a job, for whoever came by `link`, and no longer."""
        shown = ProgressLink(job_id=job_id, user_id=link.user_id, expires_at=link.expires_at)
        return PROGRESS_PATH + self._sign(shown)

    def session(self, link: ConnectLink, *, nonce: str) -> str:
        """What a browser keeps while its user is on the provider's page."""
        expires_at = self._after(SESSION_TERM)
        return self._sign(ConnectSession(link=link, nonce=nonce, expires_at=expires_at))

    # ---- opening them --------------------------------------------------------------------------

    def open_progress(self, token: str) -> ProgressLink:
        """What the link lets its holder see; raises LinkInvalid or LinkExpired."""
        return self._open(token, ProgressLink)

    def open_page(self, kind: str, token: str) -> PageLink:
        """The thing of that kind that the link shows; raises LinkInvalid or LinkExpired."""
        link = self._open(token, PageLink)
        if link.kind != kind:
            raise LinkInvalid
        return link

    def open_connect(self, token: str) -> ConnectLink:
        """Whom the link connects to what; raises LinkInvalid or LinkExpired."""
        return self._open(token, ConnectLink)

    def open_session(self, token: str) -> ConnectSession:
        """The browser that kept this; raises LinkInvalid or LinkExpired."""
        return self._open(token, ConnectSession)

    # ---- parts ---------------------------------------------------------------------------------

    def _after(self, ttl: timedelta) -> datetime:
        # Whole seconds: a finer end would only make the link longer.
        return (self._clock.now() + ttl).replace(microsecond=0)

    def _sign(self, link: Link) -> str:
        payload = _encoded(msgspec.json.encode(_Signed(self._newest, link)))
        return f"{payload.decode()}.{self._signature(self._newest, payload).decode()}"

    def _signature(self, key_id: str, payload: bytes) -> bytes:
        return _encoded(hmac.digest(self._keys[key_id], payload, "sha256"))

    def _open(self, token: str, kind: type[L]) -> L:
        if len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            raise LinkInvalid
        payload, _, signature = token.encode().partition(b".")
        signed = _decoded(payload)
        if signed.key not in self._keys:
            raise LinkInvalid
        # The text that came is compared, not what it decodes to: there is one way to write each.
        if not hmac.compare_digest(self._signature(signed.key, payload), signature):
            raise LinkInvalid
        if not isinstance(signed.link, kind):
            raise LinkInvalid
        if signed.link.expires_at <= self._clock.now():
            raise LinkExpired
        return signed.link


def _derived(keys: KeyRing, key_id: str) -> bytes:
    key = keys.find(key_id)
    assert key is not None
    return hmac.digest(key, _LABEL, "sha256")


def _encoded(plain: bytes) -> bytes:
    return urlsafe_b64encode(plain).rstrip(b"=")


def _decoded(payload: bytes) -> _Signed:
    try:
        plain = urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))
        return msgspec.json.decode(plain, type=_Signed)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise LinkInvalid from None
