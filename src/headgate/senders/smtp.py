"""Sends notifications as e-mails: one connection to the mail server for each attempt.

The recipient is looked up when an e-mail is sent. A user who opts out gets no more, not even those
that are on their way.
"""

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiosmtplib
import msgspec
from aiosmtplib import SMTP

from headgate.base.redact import MASK, redact
from headgate.model.delivery import (
    Acceptance,
    Message,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.mail_server import MailServer, TlsMode
from headgate.model.notification import Notification
from headgate.model.target import Target, Topic
from headgate.model.user import email_problem
from headgate.ports.people.notification_links import NotificationLinks
from headgate.senders.email_text import write_email

#: How long the server may take for each of its answers, and for the last one, which is a courtesy.
ANSWER_S_MAX, QUIT_S_MAX = 30.0, 2.0
#: By these a server says that it takes nothing from us: it wants another user, password or TLS.
_OUR_FAULT = frozenset({530, 534, 535, 538})
#: The longest text of a server that is kept.
_SAID_LENGTH_MAX = 200

#: Returns where notifications for a user go; None if they have no address, or want none.
EmailOf = Callable[[str], Awaitable[str | None]]


class SmtpSender:
    """The `Sender` port over SMTP."""

    def __init__(
        self,
        email_of: EmailOf,
        links: NotificationLinks | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Send to users' addresses; `tls` replaces the system's trusted authorities.

        Without `links`, e-mails have none: nobody serves the pages.
        """
        self._email_of = email_of
        self._links = links
        self._tls = tls

    async def send(self, target: Target, topic: Topic, message: Message) -> SendOutcome:
        """Send the message once."""
        assert isinstance(target, MailServer), "this sender is named for mail servers alone"
        if not message.intact:
            return Rejection("the payload was changed after it was enqueued")
        try:
            notification = msgspec.json.decode(message.payload, type=Notification)
        except msgspec.DecodeError:
            return Rejection("the payload is not a notification")
        to = target.recipient or notification.data.to
        if to is None and message.user_id is not None:
            to = await self._email_of(message.user_id)
        if to is None or email_problem(to) is not None:
            return Rejection("the user has no address, or wants no e-mails any more")
        try:
            mail = write_email(target, to, notification, message, self._links)
        except ValueError as error:
            return Rejection(f"it cannot be written as an e-mail: {type(error).__name__}")
        return await self._hand_over(target, to, mail)

    async def _hand_over(self, server: MailServer, to: str, mail: bytes) -> SendOutcome:
        client = self._client(server)
        try:
            await client.connect()
            await client.sendmail(server.sender_address, [to], mail)
        except (aiosmtplib.SMTPException, OSError) as error:
            return _outcome_of(error, server, to)
        else:
            # It has the e-mail: whatever it says now, or does not say, changes nothing.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit(timeout=QUIT_S_MAX)
            return Acceptance()
        finally:
            client.close()

    def _client(self, server: MailServer) -> SMTP:
        return SMTP(
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=None if server.key is None else server.key.reveal(),
            # Not the name of this machine, which is nobody's business.
            local_hostname=server.sender_address.rpartition("@")[2],
            timeout=ANSWER_S_MAX,
            use_tls=server.tls is TlsMode.TLS,
            # Never "if the server supports it": then anybody in between could forbid it.
            start_tls=server.tls is TlsMode.STARTTLS,
            tls_context=self._tls,
        )


def _outcome_of(error: Exception, server: MailServer, to: str) -> SendOutcome:
    """What an error means: later, never, or nothing at all until the settings are corrected."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        error = error.recipients[0]
    if isinstance(error.__cause__ or error, ssl.SSLCertVerificationError):
        return SendFailure("its certificate is not valid: it may be another server")
    match error:
        case aiosmtplib.SMTPResponseException():
            return _answered(error, server, to)
        case aiosmtplib.SMTPTimeoutError() | TimeoutError():
            return SendFailure(f"it did not answer within {ANSWER_S_MAX:g} s")
        case aiosmtplib.SMTPConnectError() | OSError():
            return SendFailure(f"it could not be reached: {type(error).__name__}")
        case _:
            # In the library's own words: no STARTTLS, or no way to say a password.
            said = _clean(str(error), server, to)
            return SendFailure(f"it does not offer what the settings ask for: {said}")


def _answered(error: aiosmtplib.SMTPResponseException, server: MailServer, to: str) -> SendOutcome:
    said = f"it answered {error.code}: {_clean(error.message, server, to)}"
    if not 500 <= error.code < 600:
        return SendFailure(said)
    if error.code in _OUR_FAULT or isinstance(error, aiosmtplib.SMTPAuthenticationError):
        # Without its text, which may quote what we sent.
        return TargetRefusal(
            f"it answered {error.code}: it wants another user, password or encryption"
        )
    match error:
        case aiosmtplib.SMTPSenderRefused():
            return TargetRefusal(said)
        case aiosmtplib.SMTPRecipientRefused() | aiosmtplib.SMTPDataError():
            return Rejection(said)
        case _:
            # It is not about this e-mail: such as a greeting that tells us to go away.
            return SendFailure(said)


def _clean(text: str, server: MailServer, to: str) -> str:
    """A text of the server, fit to be stored: without our password and without the recipient."""
    for secret in server.secrets:
        text = text.replace(secret.reveal(), MASK)
    return redact(text.replace(to, "the recipient"), length_max=_SAID_LENGTH_MAX)
