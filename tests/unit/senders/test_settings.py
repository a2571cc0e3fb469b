"""Settings of notifications: whom they tell, refused by name, and secrets never told."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from headgate import settings
from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.base.signing import new_signing_secret
from headgate.flow.notifications.service import NotificationSettings
from headgate.model.mail_server import TlsMode
from headgate.policy.notifications import Finishes

OLD, NEW = new_signing_secret(Random(1)), new_signing_secret(Random(2))
PASSWORD = "hunter2-the-password"
URL = "https://hooks.example.com/in"
HOOK = {"notify_webhook_url": URL, "notify_webhook_secret": NEW.reveal()}
MAIL = {"smtp_host": "mail.example.com", "smtp_from": "sync@example.com"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def private(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="ascii")
    path.chmod(0o600)
    return str(path)


def load(monkeypatch: pytest.MonkeyPatch, **given: str) -> NotificationSettings | None:
    """The notifications of these variables, whose names begin with HEADGATE_."""
    for name, value in given.items():
        monkeypatch.setenv(f"HEADGATE_{name.upper()}", value)
    return settings.load().notifications()


def loaded(monkeypatch: pytest.MonkeyPatch, **given: str) -> NotificationSettings:
    found = load(monkeypatch, **given)
    assert found is not None
    return found


def test_by_default_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch) is None
    # Rules alone tell nobody.
    assert load(monkeypatch, notify_finished="all") is None


def test_a_webhook_has_a_url_and_secrets_of_a_private_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = private(folder, "webhook.key", f"{NEW.reveal()}\n{OLD.reveal()}\n")
    found = loaded(monkeypatch, notify_webhook_url=URL, notify_webhook_secret_file=file)
    assert found.webhook is not None and found.email is None
    assert (found.webhook.name, found.webhook.url) == ("notify.webhook", URL)
    assert found.webhook.signing == (NEW, OLD)
    assert [each.name for each in found.targets] == ["notify.webhook"]
    Path(file).chmod(0o644)
    with pytest.raises(InvalidInput, match=r"^notify_webhook_secret_file: .* read by others"):
        load(monkeypatch)


def test_secrets_may_be_a_variable_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    both = f"{NEW.reveal()} {OLD.reveal()}"
    found = loaded(monkeypatch, notify_webhook_url=URL, notify_webhook_secret=both)
    assert found.webhook is not None and found.webhook.signing == (NEW, OLD)
    shown = repr(found) + repr(settings.load())
    assert NEW.reveal() not in shown and OLD.reveal() not in shown


def test_a_mail_server_and_what_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(
        monkeypatch,
        smtp_host="mail.example.com",
        smtp_user="sync",
        smtp_password_file=private(folder, "smtp.key", f"{PASSWORD}\n"),
        smtp_from="Sync <sync@example.com>",
        notify_operator="ops@example.com",
        notify_finished="none",
        notify_paused_after_h="0.5",
    )
    email, operator = found.email, found.operator_email
    assert email is not None and operator is not None
    assert (email.name, email.url, email.tls) == (
        "notify.email",
        "smtp://mail.example.com:587",
        TlsMode.STARTTLS,
    )
    assert (email.user, email.key, email.recipient) == ("sync", Secret(PASSWORD), None)
    assert (operator.name, operator.recipient) == ("notify.operator", "ops@example.com")
    assert found.rules.finishes is Finishes.NONE
    assert found.rules.paused_after == timedelta(minutes=30)
    assert PASSWORD not in repr(found)


@pytest.mark.parametrize(("tls", "port"), [("tls", 465), ("none", 25), ("starttls", 587)])
def test_the_port_is_the_usual_one_of_the_encryption(
    monkeypatch: pytest.MonkeyPatch, tls: str, port: int
) -> None:
    given = {**MAIL, "smtp_tls": tls}
    found = loaded(monkeypatch, **given)
    assert found.email is not None and found.email.port == port
    found = loaded(monkeypatch, **given, smtp_port="2525")
    assert found.email is not None and found.email.port == 2525


def test_a_file_holds_them_too(folder: Path) -> None:
    lines = [f'{name} = "{value}"' for name, value in MAIL.items()]
    private(folder, "headgate.toml", "\n".join(lines))
    found = settings.load().notifications()
    assert found is not None and found.email is not None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"notify_webhook_url": URL}, r"^notify_webhook_secret_file: .*headgate notify secret"),
        ({"notify_webhook_secret": NEW.reveal()}, "^notify_webhook_url: set it too"),
        (
            {**HOOK, "notify_webhook_url": "hooks.example.com"},
            r"^target notify\.webhook: url: write one such as https://",
        ),
        (
            {**HOOK, "notify_webhook_secret": "whsec_sh0rt"},
            r"^target notify\.webhook: signing: each secret is whsec_",
        ),
        (
            {**HOOK, "notify_webhook_secret_file": "webhook.key"},
            "^notify_webhook_secret: .* are both set; leave one of the two out",
        ),
        ({"smtp_host": "mail.example.com"}, "^smtp_from: set the address"),
        (
            {**MAIL, "smtp_from": "sync"},
            r"^target notify\.email: sender: write an address",
        ),
        (
            {**MAIL, "smtp_user": "sync"},
            r"^target notify\.email: user: .* belong together",
        ),
        (
            {**HOOK, "notify_operator": "ops@example.com"},
            "^smtp_host: set it too: notify_operator is told by e-mail",
        ),
        ({"smtp_tls": "maybe"}, "^smtp_tls: .*set HEADGATE_SMTP_TLS"),
        ({"smtp_port": "0"}, "^smtp_port: .*set HEADGATE_SMTP_PORT"),
        ({"notify_finished": "some"}, "^notify_finished: .*set HEADGATE_NOTIFY_FINISHED"),
        ({"notify_paused_after_h": "0"}, "^notify_paused_after_h: .*greater than 0"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem) as told:
        load(monkeypatch, **given)
    assert "sh0rt" not in str(told.value) and NEW.reveal() not in str(told.value)
