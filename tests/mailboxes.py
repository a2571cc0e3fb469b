"""A real mail server on loopback, with the mailboxes that it fills."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from headgate.model.mail_server import MailServer, TlsMode

USER, PASSWORD = "sync", "hunter2-the-password"


class Mailboxes:
    """The handler of a mail server: it takes every e-mail, but for what `answers` says."""

    def __init__(self) -> None:
        self.port = 0
        #: What it says to a command in place of "fine": MAIL, RCPT or DATA.
        self.answers: dict[str, str] = {}
        #: The e-mails by recipient, in their order, and from whom they came.
        self.mails: list[tuple[str, EmailMessage]] = []
        self.raw: list[bytes] = []
        self.senders: list[str | None] = []
        self.greeted_by: list[str | None] = []
        #: Which of the connections were encrypted when they sent an e-mail.
        self.encrypted: list[bool] = []
        self.logins: list[bool] = []

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "MAIL" in self.answers:
            return self.answers["MAIL"]
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "RCPT" in self.answers:
            return self.answers["RCPT"]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if "DATA" in self.answers:
            return self.answers["DATA"]
        assert isinstance(envelope.content, bytes)
        mail = BytesParser(policy=default).parsebytes(envelope.content)
        assert isinstance(mail, EmailMessage)
        self.mails += [(each, mail) for each in envelope.rcpt_tos]
        self.raw.append(envelope.content)
        self.senders.append(envelope.mail_from)
        self.greeted_by.append(session.host_name)
        assert server.transport is not None
        self.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 OK"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        right = isinstance(data, LoginPassword) and data.password == PASSWORD.encode()
        self.logins.append(right)
        return AuthResult(success=right, handled=False)

    @property
    def recipients(self) -> list[str]:
        """Who got an e-mail, in the order of the e-mails."""
        return [to for to, _ in self.mails]

    def target(self, **fields: Any) -> MailServer:
        """The server as a target, without encryption and password, but for `fields`."""
        given: dict[str, Any] = {
            "name": "notify.email",
            "url": f"smtp://localhost:{self.port}",
            "sender": "Sync <sync@example.com>",
            "tls": TlsMode.NONE,
            **fields,
        }
        return MailServer(**given)


@asynccontextmanager
async def mail_server(
    *, tls: ssl.SSLContext | None = None, mode: TlsMode = TlsMode.NONE, auth: bool = False
) -> AsyncIterator[Mailboxes]:
    """A server on loopback until the block ends; `tls` is its certificate, `auth`: it wants one."""
    loop, boxes = asyncio.get_running_loop(), Mailboxes()
    starts_tls = mode is TlsMode.STARTTLS

    def connect() -> SMTP:
        with warnings.catch_warnings():
            # It warns of passwords in the clear, which tests do not mind.
            warnings.simplefilter("ignore")
            return SMTP(
                boxes,
                hostname="mail.example.com",
                tls_context=tls if starts_tls else None,
                require_starttls=starts_tls,
                auth_required=auth,
                auth_require_tls=False,
                auth_exclude_mechanism=() if auth else ("LOGIN", "PLAIN"),
                authenticator=boxes.authenticate if auth else None,
                loop=loop,
            )

    at_once = tls if mode is TlsMode.TLS else None
    server = await loop.create_server(connect, "127.0.0.1", 0, ssl=at_once)
    boxes.port = server.sockets[0].getsockname()[1]
    try:
        yield boxes
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def saying(*lines: bytes) -> AsyncIterator[int]:
    """A port that says these lines, one for each line that it gets, and then hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for line in lines:
                writer.write(line + b"\r\n")
                await writer.drain()
                await reader.readline()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def contexts(
    folder: Path, name: str, certificate: Callable[[Path, str], Path]
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of that name shows, and who trusts it."""
    path = certificate(folder, name)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(path)
    return shown, ssl.create_default_context(cafile=str(path))
