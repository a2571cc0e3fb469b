"""One attempt at a real mail server: what goes out, and what every answer means."""

from pathlib import Path
from typing import Any

import pytest

from headgate.base.encoding import hash_text, to_json
from headgate.base.secret import Secret
from headgate.model.delivery import (
    Acceptance,
    Message,
    Rejection,
    SendFailure,
    SendOutcome,
    TargetRefusal,
)
from headgate.model.mail_server import MailServer, TlsMode
from headgate.model.notification import (
    TOPIC,
    Notification,
    NotificationData,
    NotificationKind,
    type_of,
)
from headgate.model.target import Topic
from headgate.senders import smtp as smtp_sender
from headgate.senders.smtp import SmtpSender
from tests.certificates import certificate
from tests.mailboxes import PASSWORD, USER, contexts, mail_server, saying
from tests.unit.model.test_delivery import make_message
from tests.unit.values import NOW

TO = Topic(name=TOPIC, path="", exclusive=True)
ADDRESSES = {"ada": "ada@example.com", "odd": "no address"}
LOGIN = {"user": USER, "key": Secret(PASSWORD)}


def notice(to: str | None = None, **fields: Any) -> Message:
    """A message with a notification."""
    data = NotificationData(title="Your import is done", message="Done.", to=to)
    kind = type_of(NotificationKind.FINISHED)
    payload = to_json(Notification(type=kind, timestamp=NOW, data=data))
    return make_message(payload, topic=TOPIC, **{"user_id": "ada", **fields})


async def email_of(user_id: str) -> str | None:
    return ADDRESSES.get(user_id)


async def send(server: MailServer, message: Message | None = None, **given: Any) -> SendOutcome:
    """The outcome of one attempt."""
    return await SmtpSender(email_of, **given).send(server, TO, message or notice())


# ---- who gets it -------------------------------------------------------------------------------


async def test_an_e_mail_goes_to_the_address_that_its_user_has_now() -> None:
    async with mail_server() as boxes:
        assert await send(boxes.target()) == Acceptance()
    [(to, mail)] = boxes.mails
    assert to == "ada@example.com" == mail["To"]
    assert (boxes.senders, mail["From"]) == (["sync@example.com"], "Sync <sync@example.com>")
    # Not the name of this machine.
    assert boxes.greeted_by == ["example.com"]


async def test_a_recipient_of_the_target_gets_everything() -> None:
    async with mail_server() as boxes:
        await send(boxes.target(recipient="ops@example.com"))
    assert boxes.recipients == ["ops@example.com"]


async def test_a_test_goes_where_it_says() -> None:
    async with mail_server() as boxes:
        await send(boxes.target(), notice(to="eve@example.com", user_id=None))
    assert boxes.recipients == ["eve@example.com"]


@pytest.mark.parametrize("user_id", ["bob", "odd", None])
async def test_whoever_opted_out_meanwhile_gets_nothing(user_id: str | None) -> None:
    async with mail_server() as boxes:
        told = await send(boxes.target(), notice(user_id=user_id))
    assert told == Rejection("the user has no address, or wants no e-mails any more")
    assert boxes.mails == []


@pytest.mark.parametrize("to", ["eve@example.com\r\nRCPT TO:<all@example.com>", "a@b\nBcc: c@d.e"])
async def test_nobody_slips_another_recipient_in(to: str) -> None:
    async with mail_server() as boxes:
        assert isinstance(await send(boxes.target(), notice(to=to)), Rejection)
    assert boxes.mails == []


# ---- payloads ----------------------------------------------------------------------------------


async def test_a_payload_that_was_changed_is_not_sent() -> None:
    message = notice(payload_hash=hash_text("another"))
    async with mail_server() as boxes:
        told = await send(boxes.target(), message)
    assert told == Rejection("the payload was changed after it was enqueued")


async def test_what_is_no_notification_is_not_sent() -> None:
    async with mail_server() as boxes:
        told = await send(boxes.target(), make_message('{"order":1}', user_id="ada"))
    assert told == Rejection("the payload is not a notification")


# ---- encryption and passwords ------------------------------------------------------------------


@pytest.mark.parametrize("mode", [TlsMode.STARTTLS, TlsMode.TLS])
async def test_the_connection_is_encrypted_before_the_password_is_said(
    tmp_path: Path, mode: TlsMode
) -> None:
    shown, trusted = contexts(tmp_path, "localhost", certificate)
    async with mail_server(tls=shown, mode=mode, auth=True) as boxes:
        target = boxes.target(tls=mode, **LOGIN)
        assert await send(target, tls=trusted) == Acceptance()
    assert (boxes.encrypted, boxes.logins) == ([True], [True])


@pytest.mark.parametrize("mode", [TlsMode.STARTTLS, TlsMode.TLS])
async def test_a_server_that_cannot_prove_its_name_gets_no_password(
    tmp_path: Path, mode: TlsMode
) -> None:
    shown, trusted = contexts(tmp_path, "elsewhere.example", certificate)
    async with mail_server(tls=shown, mode=mode, auth=True) as boxes:
        for context in (trusted, None):
            told = await send(boxes.target(tls=mode, **LOGIN), tls=context)
            assert told == SendFailure("its certificate is not valid: it may be another server")
    assert (boxes.mails, boxes.logins) == ([], [])


async def test_nothing_is_sent_in_the_clear_because_the_server_has_no_encryption() -> None:
    async with mail_server() as boxes:
        told = await send(boxes.target(tls=TlsMode.STARTTLS))
    assert isinstance(told, SendFailure) and "STARTTLS" in told.reason.upper()
    assert boxes.mails == []


async def test_a_wrong_password_stops_the_target() -> None:
    async with mail_server(auth=True) as boxes:
        told = await send(boxes.target(user=USER, key=Secret("wrong-p4ss")))
    assert told == TargetRefusal("it answered 535: it wants another user, password or encryption")
    assert (boxes.mails, set(boxes.logins)) == ([], {False})


async def test_a_missing_password_stops_the_target() -> None:
    async with mail_server(auth=True) as boxes:
        told = await send(boxes.target())
    assert isinstance(told, TargetRefusal) and told.reason.startswith("it answered 530")


async def test_a_server_without_passwords_is_told_from_one_that_is_down() -> None:
    async with mail_server() as boxes:
        told = await send(boxes.target(**LOGIN))
    assert isinstance(told, SendFailure)
    assert told.reason.startswith("it does not offer what the settings ask for: No suitable auth")


# ---- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["RCPT", "DATA"])
async def test_what_can_never_be_delivered_is_dead(command: str) -> None:
    async with mail_server() as boxes:
        boxes.answers[command] = "550 5.1.1 ada@example.com: no such user"
        told = await send(boxes.target())
    # Without the address, which is nobody else's business.
    assert told == Rejection("it answered 550: 5.1.1 the recipient: no such user")


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
async def test_what_is_refused_for_now_is_sent_again(command: str) -> None:
    async with mail_server() as boxes:
        boxes.answers[command] = "451 4.7.1 greylisted, try later"
        told = await send(boxes.target())
        assert told == SendFailure("it answered 451: 4.7.1 greylisted, try later")
        boxes.answers.clear()
        assert await send(boxes.target()) == Acceptance()


async def test_a_server_that_refuses_the_sender_stops() -> None:
    async with mail_server() as boxes:
        boxes.answers["MAIL"] = "550 5.7.1 sync@example.com is not yours"
        told = await send(boxes.target())
    assert isinstance(told, TargetRefusal) and "is not yours" in told.reason


async def test_a_server_that_quotes_the_password_does_not_get_it_stored() -> None:
    async with mail_server(auth=True) as boxes:
        boxes.answers["RCPT"] = f"550 you said {PASSWORD}"
        told = await send(boxes.target(**LOGIN))
    assert isinstance(told, Rejection) and PASSWORD not in told.reason


# ---- servers that do not answer ----------------------------------------------------------------


async def test_a_server_that_is_not_there_is_asked_again_later() -> None:
    async with mail_server() as boxes:
        gone = boxes.target()
    told = await send(gone)
    assert isinstance(told, SendFailure) and told.reason.startswith("it could not be reached")


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (b"554 no service for you",),
        (b"421 too busy",),
        (b"220 hello", b"550 who are you"),
        (b"220 hello", b"250 fine"),
        (b"\xff\xfe nonsense",),
    ],
)
async def test_a_greeting_that_goes_wrong_kills_no_e_mail(lines: tuple[bytes, ...]) -> None:
    async with saying(*lines) as port:
        server = MailServer(
            name="notify.email",
            url=f"smtp://127.0.0.1:{port}",
            sender="sync@example.com",
            tls=TlsMode.NONE,
        )
        assert isinstance(await send(server), SendFailure)


async def test_a_server_that_says_nothing_is_left_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smtp_sender, "ANSWER_S_MAX", 0.2)
    async with saying(b"220-wait") as port:
        server = MailServer(
            name="notify.email",
            url=f"smtp://127.0.0.1:{port}",
            sender="sync@example.com",
            tls=TlsMode.NONE,
        )
        told = await send(server)
    assert told == SendFailure("it did not answer within 0.2 s")


async def test_once_it_has_the_e_mail_a_rude_end_changes_nothing() -> None:
    async with mail_server() as boxes:

        async def be_rude(*_: Any) -> str:
            return "554 go away"

        boxes.handle_QUIT = be_rude  # type: ignore[attr-defined]
        assert await send(boxes.target()) == Acceptance()
    assert len(boxes.mails) == 1
