"""Writes a notification as an e-mail, in plain text and in simple HTML.

Everything is put into headers by the standard library, which refuses line ends in them.
"""

from collections.abc import Iterator, Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from html import escape

import msgspec

from headgate.base.encoding import hash_text
from headgate.model.delivery import Message
from headgate.model.mail_server import MailServer
from headgate.model.notification import Notification, NotificationKind, NotifiedJob, type_of
from headgate.ports.people.notification_links import NotificationLinks

#: Longer than any line of ours: the standard library would encode a link that it has to cut.
_LINE_LENGTH_MAX = 998
_POLICY = SMTP.clone(max_line_length=_LINE_LENGTH_MAX)

_STYLE = "font:16px/1.5 system-ui,sans-serif;color:#1b1f23;max-width:36em"
_BUTTON = (
    "display:inline-block;padding:.6em 1.2em;border-radius:.4em;background:#0f6e6c;color:#fff;"
    "text-decoration:none"
)
_SMALL = "font-size:13px;color:#57606a"


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What an e-mail says, before it is text or HTML."""

    subject: str
    paragraphs: Sequence[str]
    #: What the link does, and where it leads.
    link: tuple[str, str] | None = None
    small: Sequence[str] = ()
    opt_out_url: str | None = None


def write_email(
    server: MailServer,
    to: str,
    notification: Notification,
    message: Message,
    links: NotificationLinks | None,
) -> bytes:
    """The e-mail to `to`; ValueError if a header cannot be written.

    It has the same Message-ID at every attempt, so that a mailbox can tell that it is the same.
    """
    to_operator = server.recipient is not None
    parts = _for_operator(notification) if to_operator else _for_user(notification, links)
    name, address = parseaddr(server.sender)
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(display_name=name, addr_spec=address)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = parts.subject
    mail["Date"] = format_datetime(message.created_at)
    mail["Message-ID"] = f"<{message.id}.{server.name}@{address.rpartition('@')[2]}>"
    # So that no out-of-office assistant answers.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    if parts.opt_out_url is not None:
        mail["List-Unsubscribe"] = f"<{parts.opt_out_url}>"
        mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    # Encoded, so that no server on the way has to touch long lines or letters beyond ASCII.
    mail.set_content(_text(parts), cte="quoted-printable")
    mail.add_alternative(_html(parts), subtype="html", cte="quoted-printable")
    mail.set_boundary(hash_text(message.id))
    return mail.as_bytes()


# ---- what it says ------------------------------------------------------------------------------


def _for_user(notification: Notification, links: NotificationLinks | None) -> _Parts:
    data = notification.data
    if data.job is None:
        return _Parts(subject=data.title, paragraphs=[data.message])
    link, opt_out_url = None, None
    if links is not None:
        user_id = data.job.user_id
        link = _link_text(notification), links.progress_url(job_id=data.job.id, user_id=user_id)
        opt_out_url = links.opt_out_url(user_id=user_id)
    return _Parts(
        subject=data.title,
        paragraphs=[data.message],
        link=link,
        small=[f"Support code: {data.job.id}"],
        opt_out_url=opt_out_url,
    )


def _link_text(notification: Notification) -> str:
    if notification.type == type_of(NotificationKind.NEEDS_REAUTH):
        return "Sign in again"
    return "See your import"


def _for_operator(notification: Notification) -> _Parts:
    data = notification.data
    if data.job is None:
        return _Parts(subject=data.title, paragraphs=[data.message])
    facts = "\n".join(f"{name}: {value}" for name, value in _facts(data.job))
    return _Parts(
        subject=f"{data.job.sync} of {data.job.user_id}: {notification.type}",
        paragraphs=[f"The user was told, or would have been: {data.message}", facts],
        small=[f"More: headgate job show {data.job.id}"],
    )


def _facts(job: NotifiedJob) -> Iterator[tuple[str, str]]:
    yield "job", job.id
    yield "user", job.user_id
    yield "connection", job.connection_id
    yield "state", f"{job.state.value} ({job.reason.value})"
    error = job.operator.error
    if error is not None:
        yield "error", ": ".join(part for part in (error.kind, error.message) if part)
        for name, value in (("caused by", error.cause), ("raised at", error.raised_at)):
            if value is not None:
                yield name, value


# ---- as text and as HTML -----------------------------------------------------------------------


def _text(parts: _Parts) -> str:
    blocks = [*parts.paragraphs]
    if parts.link is not None:
        blocks.append(f"{parts.link[0]}: {parts.link[1]}")
    blocks += parts.small
    if parts.opt_out_url is not None:
        blocks.append(f"Get no more of these e-mails: {parts.opt_out_url}")
    return "\n\n".join(blocks) + "\n"


def _html(parts: _Parts) -> str:
    blocks = [f"<h1 style='font-size:20px'>{escape(parts.subject)}</h1>"]
    blocks += [f"<p>{escape(each).replace(chr(10), '<br>')}</p>" for each in parts.paragraphs]
    if parts.link is not None:
        text, url = parts.link
        blocks.append(f"<p><a style='{_BUTTON}' href='{escape(url)}'>{escape(text)}</a></p>")
    blocks += [f"<p style='{_SMALL}'>{escape(each)}</p>" for each in parts.small]
    if parts.opt_out_url is not None:
        off = f"<a href='{escape(parts.opt_out_url)}'>Get no more of these e-mails</a>"
        blocks.append(f"<p style='{_SMALL}'>{off}</p>")
    return f"<!doctype html><body style='{_STYLE}'>{''.join(blocks)}</body>\n"
