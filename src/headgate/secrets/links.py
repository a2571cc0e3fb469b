"""Signed links, which let a person in without a login: each for one purpose, until it expires.

A link is a capability: whoever has it may look at one thing, or connect one account for one user.
So a link is never logged, and a page that it opens sends no referrer. The signing keys are derived
from the encryption keys, which sign nothing themselves. The newest key signs; a link signed with an
older key is valid as long as that key is in the ring.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from headgate.base.clock import Clock
from headgate.base.errors import HeadgateError, NotFound
from headgate.secrets.keys import KeyRing

PROGRESS_PATH, CONNECT_PATH, OPT_OUT_PATH = "/p/", "/connect/", "/notifications/"
#: How long a link is valid by default.
LINK_TERM = timedelta(days=7)
#: A link to connect an account is short-lived: one person uses it at once.
CONNECT_TERM = timedelta(hours=1)
#: How long the links in an e-mail are valid: people are on holiday; and the one to get no more.
EMAIL_TERM, OPT_OUT_TERM = timedelta(days=30), timedelta(days=365)
#: How long a browser that was sent to a provider's page is recognized when it comes back. Signing
#: in has to be finished much sooner; until then a late user is at least told what to do.
SESSION_TERM = timedelta(hours=1)
#: Longer than any token of ours: three ids of 200 characters, encoded twice.
TOKEN_LENGTH_MAX = 4096

#: Separates these keys from others that are derived from the same encryption keys.
_LABEL = b"headgate links, version 1"


class LinkExpired(HeadgateError):
    """This link has expired; ask for a new one."""


class LinkInvalid(NotFound):
    """This link is not valid."""


class ProgressLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="progress", omit_defaults=True
):
    """A link whose holder may look at one job, and retry it."""

    job_id: str
    user_id: str
    expires_at: datetime


class PageLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="page", omit_defaults=True
):
    """A link whose holder may look at one thing of one kind, on a page of a system."""

    kind: str
    id: str
    user_id: str
    expires_at: datetime


class ConnectLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="connect", omit_defaults=True
):
    """A link whose holder may connect an account for one user."""

    source: str
    user_id: str
    #: The connection to connect again; None: any account that the user signs in to.
    connection_id: str | None = None
    #: The user's job to retry once the account is connected.
    retry_job: str | None = None
    expires_at: datetime


class OptOutLink(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="opt_out", omit_defaults=True
):
    """A link whose holder may turn one user's notifications off and on."""

    user_id: str
    expires_at: datetime


class ConnectSession(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="for", tag="session", omit_defaults=True
):
    """A browser on its way to a provider's page and back; stored in a cookie."""

    link: ConnectLink
    #: Random, so that no two browsers have the same session.
    nonce: str
    expires_at: datetime


Link = ProgressLink | PageLink | ConnectLink | OptOutLink | ConnectSession
L = TypeVar("L", ProgressLink, PageLink, ConnectLink, OptOutLink, ConnectSession)


class _Signed(msgspec.Struct, frozen=True):
    """A link, and the id of the key that signs it."""

    key: str
    link: Link


class Links:
    """Signs links and opens them."""

    def __init__(self, keys: KeyRing, clock: Clock) -> None:
        """Sign with the newest of `keys`; `clock` judges whether a link has expired."""
        self._newest = keys.newest
        self._keys = {key_id: _derive_key(keys, key_id) for key_id in keys.ids}
        self._clock = clock

    def __repr__(self) -> str:
        return f"Links({', '.join(self._keys)})"

    # ---- signing -------------------------------------------------------------------------------

    def progress_path(self, *, job_id: str, user_id: str, ttl: timedelta = LINK_TERM) -> str:
        """Return the path of the page that shows a job to its user."""
        expires_at = self._after(ttl)
        link = ProgressLink(job_id=job_id, user_id=user_id, expires_at=expires_at)
        return PROGRESS_PATH + self._sign(link)

    def page_token(self, kind: str, id: str, *, user_id: str, ttl: timedelta = LINK_TERM) -> str:
        """Return the last part of the path of a page that shows one thing to its user."""
        return self._sign(PageLink(kind=kind, id=id, user_id=user_id, expires_at=self._after(ttl)))

    def connect_path(
        self,
        *,
        source: str,
        user_id: str,
        connection_id: str | None = None,
        retry_job: str | None = None,
        ttl: timedelta = CONNECT_TERM,
    ) -> str:
        """Return the path that sends a user to a provider's page, to connect an account."""
        link = ConnectLink(
            source=source,
            user_id=user_id,
            connection_id=connection_id,
            retry_job=retry_job,
            expires_at=self._after(ttl),
        )
        return self.path_of(link)

    def opt_out_path(self, *, user_id: str) -> str:
        """Return the path of the page on which a user turns notifications off."""
        link = OptOutLink(user_id=user_id, expires_at=self._after(OPT_OUT_TERM))
        return OPT_OUT_PATH + self._sign(link)

    def path_of(self, link: ConnectLink) -> str:
        """Return the path of a link that was opened before; its expiry stays the same."""
        return CONNECT_PATH + self._sign(link)

    def progress_path_after(self, link: ConnectLink, job_id: str) -> str:
        """Return the path of a job's page for the user of `link`; both expire together."""
        progress = ProgressLink(job_id=job_id, user_id=link.user_id, expires_at=link.expires_at)
        return PROGRESS_PATH + self._sign(progress)

    def session_token(self, link: ConnectLink, *, nonce: str) -> str:
        """Return the cookie that a browser keeps while its user is on the provider's page."""
        expires_at = self._after(SESSION_TERM)
        return self._sign(ConnectSession(link=link, nonce=nonce, expires_at=expires_at))

    # ---- opening -------------------------------------------------------------------------------

    def open_progress(self, token: str) -> ProgressLink:
        """Return the link to a job; raises LinkInvalid or LinkExpired."""
        return self._open(token, ProgressLink)

    def open_page(self, kind: str, token: str) -> PageLink:
        """Return the link to a thing of that kind; raises LinkInvalid or LinkExpired."""
        link = self._open(token, PageLink)
        if link.kind != kind:
            raise LinkInvalid
        return link

    def open_connect(self, token: str) -> ConnectLink:
        """Return the link to connect an account; raises LinkInvalid or LinkExpired."""
        return self._open(token, ConnectLink)

    def open_opt_out(self, token: str) -> OptOutLink:
        """Return the link to turn notifications off; raises LinkInvalid or LinkExpired."""
        return self._open(token, OptOutLink)

    def open_session(self, token: str) -> ConnectSession:
        """Return the session of a browser's cookie; raises LinkInvalid or LinkExpired."""
        return self._open(token, ConnectSession)

    # ---- parts ---------------------------------------------------------------------------------

    def _after(self, ttl: timedelta) -> datetime:
        # Whole seconds: fractions would only make the link longer.
        return (self._clock.now() + ttl).replace(microsecond=0)

    def _sign(self, link: Link) -> str:
        payload = _encode(msgspec.json.encode(_Signed(self._newest, link)))
        return f"{payload.decode()}.{self._signature(self._newest, payload).decode()}"

    def _signature(self, key_id: str, payload: bytes) -> bytes:
        return _encode(hmac.digest(self._keys[key_id], payload, "sha256"))

    def _open(self, token: str, kind: type[L]) -> L:
        if len(token) > TOKEN_LENGTH_MAX or not token.isascii():
            raise LinkInvalid
        payload, _, signature = token.encode().partition(b".")
        signed = _decode(payload)
        if signed.key not in self._keys:
            raise LinkInvalid
        # Compare the signature as it was sent, not decoded: each has exactly one spelling.
        if not hmac.compare_digest(self._signature(signed.key, payload), signature):
            raise LinkInvalid
        if not isinstance(signed.link, kind):
            raise LinkInvalid
        if signed.link.expires_at <= self._clock.now():
            raise LinkExpired
        return signed.link


class SiteLinks:
    """The `NotificationLinks` port: whole URLs of a site."""

    def __init__(self, links: Links, public_url: str) -> None:
        """Sign with `links`; users reach the site at `public_url`."""
        self._links = links
        self._public_url = public_url.rstrip("/")

    def progress_url(self, *, job_id: str, user_id: str) -> str:
        """The page that shows a job to its user."""
        path = self._links.progress_path(job_id=job_id, user_id=user_id, ttl=EMAIL_TERM)
        return self._public_url + path

    def opt_out_url(self, *, user_id: str) -> str:
        """The page on which a user turns notifications off."""
        return self._public_url + self._links.opt_out_path(user_id=user_id)


def _derive_key(keys: KeyRing, key_id: str) -> bytes:
    key = keys.find(key_id)
    assert key is not None
    return hmac.digest(key, _LABEL, "sha256")


def _encode(plain: bytes) -> bytes:
    return urlsafe_b64encode(plain).rstrip(b"=")


def _decode(payload: bytes) -> _Signed:
    try:
        plain = urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))
        return msgspec.json.decode(plain, type=_Signed)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise LinkInvalid from None
