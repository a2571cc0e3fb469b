"""Notifications as e-mails: what users and operators read, and what mailboxes look at."""

from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headgate.base.encoding import to_json
from headgate.flow.notifications.service import Composer
from headgate.model.delivery import Message
from headgate.model.job import Reason
from headgate.model.mail_server import MailServer
from headgate.model.notification import Notification, NotificationData, NotificationKind, type_of
from headgate.model.states import JobState
from headgate.policy.notifications import NotificationDecision
from headgate.senders.email_text import write_email
from tests.notifying import BY_EMAIL
from tests.unit.model.test_delivery import make_message
from tests.unit.values import NOW, make_job

SERVER = MailServer(name="notify.email", url="smtp://mail.example.com", sender="Sync <a@sync.dev>")
TO_OPERATOR = replace(SERVER, name="notify.operator", recipient="ops@example.com")
ERROR = "Forbidden: 403 from /v1/secret\nraised at my_syncs/source.py:12"


class FakeLinks:
    """Links that are easily told apart, as long as real ones are."""

    def progress_url(self, *, job_id: str, user_id: str) -> str:
        return f"https://sync.example.com/p/{job_id}-{user_id}-{'x' * 400}?a=1&b=2"

    def opt_out_url(self, *, user_id: str) -> str:
        return f"https://sync.example.com/notifications/{user_id}-{'y' * 400}"


def notification(kind: NotificationKind = NotificationKind.FAILED, **fields: Any) -> Notification:
    """What is told of a job that failed."""
    reason = Reason.NEEDS_REAUTH if kind is NotificationKind.NEEDS_REAUTH else Reason.REFUSED
    given = {"state": JobState.FAILED, "reason": reason, "error": ERROR, **fields}
    composer = Composer(BY_EMAIL, {"fitbit": "Fitbit"})
    new = composer.compose(NotificationDecision(kind=kind), make_job(**given), at=NOW, to_user=True)
    assert new is not None
    return msgspec.json.decode(new.payload, type=Notification)


def written(
    told: Notification,
    server: MailServer = SERVER,
    links: FakeLinks | None = None,
    message: Message | None = None,
) -> EmailMessage:
    """The e-mail as a mailbox reads it."""
    sent = message or make_message(to_json(told))
    raw = write_email(server, "ada@example.com", told, sent, links)
    assert all(byte < 128 for byte in raw), "any server takes it as it is"
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    mail = BytesParser(policy=default).parsebytes(raw)
    assert isinstance(mail, EmailMessage)
    return mail


def text(mail: EmailMessage, kind: str = "plain") -> str:
    part = mail.get_body((kind,))
    assert part is not None
    found: str = part.get_content()
    return found


def test_a_user_reads_what_happened_and_what_to_do() -> None:
    mail = written(notification(), links=FakeLinks())
    links = FakeLinks()
    progress = links.progress_url(job_id="job_1", user_id="user_1")
    opt_out = links.opt_out_url(user_id="user_1")

    assert mail["Subject"] == "Your import from Fitbit has stopped"
    assert text(mail).splitlines() == [
        "Fitbit does not let us read this, so we stopped. What was imported so far is safe. "
        "Ask support, and give them the support code.",
        "",
        f"See your import: {progress}",
        "",
        "Support code: job_1",
        "",
        f"Get no more of these e-mails: {opt_out}",
    ]
    html = text(mail, "html")
    assert f"href='{progress.replace('&', '&amp;')}'" in html
    assert f"href='{opt_out}'" in html


def test_no_error_of_ours_is_shown_to_users() -> None:
    mail = written(notification(), links=FakeLinks())
    for kind in ("plain", "html"):
        assert "403" not in text(mail, kind) and "my_syncs" not in text(mail, kind)


def test_whoever_has_to_sign_in_again_gets_a_link_that_says_so() -> None:
    mail = written(notification(NotificationKind.NEEDS_REAUTH), links=FakeLinks())
    assert mail["Subject"] == "Fitbit needs you to sign in again"
    assert "Sign in again: https://sync.example.com/p/job_1" in text(mail)


def test_without_a_site_there_are_no_links() -> None:
    mail = written(notification())
    assert "http" not in text(mail)
    assert mail["List-Unsubscribe"] is None


def test_an_operator_reads_the_error_and_how_to_see_more() -> None:
    mail = written(notification(), TO_OPERATOR, FakeLinks())
    assert mail["Subject"] == "history of user_1: job.failed"
    said = text(mail)
    for line in (
        "job: job_1",
        "state: failed (refused)",
        "error: Forbidden: 403 from /v1/secret",
        "raised at: my_syncs/source.py:12",
        "More: headgate job show job_1",
    ):
        assert line in said.splitlines()
    assert "http" not in said and mail["List-Unsubscribe"] is None


def test_an_operator_reads_of_an_end_without_an_error() -> None:
    told = notification(NotificationKind.FINISHED, error=None, state=JobState.SUCCESS)
    assert "error" not in text(written(told, TO_OPERATOR))


@pytest.mark.parametrize("server", [SERVER, TO_OPERATOR])
def test_a_test_says_that_it_is_one(server: MailServer) -> None:
    data = NotificationData(title="This is a test", message="Nothing has happened.")
    told = Notification(type=type_of(NotificationKind.TEST), timestamp=NOW, data=data)
    mail = written(told, server, FakeLinks())
    assert (mail["Subject"], text(mail).strip()) == ("This is a test", "Nothing has happened.")


# ---- headers -----------------------------------------------------------------------------------


def test_every_attempt_is_the_same_e_mail() -> None:
    first, second = written(notification()), written(notification())
    assert first.as_bytes() == second.as_bytes()
    assert first["Message-ID"] == second["Message-ID"] == "<message_1.notify.email@sync.dev>"
    assert first["Date"].datetime == NOW
    other = written(notification(), TO_OPERATOR)
    assert other["Message-ID"] == "<message_1.notify.operator@sync.dev>"


def test_mailboxes_can_opt_out_with_one_click() -> None:
    mail = written(notification(), links=FakeLinks())
    opt_out = FakeLinks().opt_out_url(user_id="user_1")
    assert mail["List-Unsubscribe"] == f"<{opt_out}>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert mail["Auto-Submitted"] == "auto-generated"


def test_letters_beyond_ascii_arrive() -> None:
    told = notification()
    data = replace(told.data, title="Dein Import ist fertig: Größe ✓", message="Schön …")
    mail = written(replace(told, data=data))
    assert mail["Subject"] == "Dein Import ist fertig: Größe ✓"
    assert text(mail).startswith("Schön …")
    assert "Größe ✓" in text(mail, "html")


def test_what_is_written_into_html_stays_text() -> None:
    told = notification()
    data = replace(told.data, title="<b>1</b>", message="<script>alert('1')</script>")
    html = text(written(replace(told, data=data)), "html")
    assert "<script>" not in html and "&lt;script&gt;" in html and "<b>" not in html


@pytest.mark.parametrize("title", ["done\r\nBcc: all@example.com", "done\nBcc: x@y.z", "a\rb"])
def test_nobody_slips_a_header_in(title: str) -> None:
    told = notification()
    with pytest.raises(ValueError, match="linefeed or carriage return"):
        written(replace(told, data=replace(told.data, title=title)))
