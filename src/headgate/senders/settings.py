"""The settings of notifications: `HEADGATE_NOTIFY_WEBHOOK_URL`, `HEADGATE_SMTP_HOST` and so on."""

from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret
from headgate.flow.notifications.service import NotificationSettings
from headgate.model.mail_server import MAIL_PORTS, MailServer, TlsMode, mail_url
from headgate.model.target import Target
from headgate.policy.notifications import Finishes, NotificationRules
from headgate.secrets.private_files import read_private_file

#: The names of the targets, as `headgate outbox` shows them.
WEBHOOK, EMAIL, OPERATOR_EMAIL = "notify.webhook", "notify.email", "notify.operator"

_RULES = NotificationRules()
_HOUR = timedelta(hours=1)
#: A year: as long as anybody waits.
PAUSED_H_MAX = 24.0 * 365


class NotificationFields(BaseModel):
    """Who is told what has become of jobs; without a webhook and a mail server, nobody is."""

    #: The URL that gets all notifications, signed as Standard Webhooks has it.
    notify_webhook_url: str | None = None
    #: Its secrets, `whsec_…`, separated by blanks, the newest first; or a file with one a line.
    notify_webhook_secret: SecretStr | None = None
    notify_webhook_secret_file: Path | None = None
    #: The mail server, from whom e-mails come, and how the connection is encrypted.
    smtp_host: str | None = None
    #: By default the usual port of the encryption.
    smtp_port: int | None = Field(default=None, ge=1, le=65_535)
    smtp_tls: TlsMode = TlsMode.STARTTLS
    smtp_user: str | None = None
    smtp_password: SecretStr | None = None
    smtp_password_file: Path | None = None
    smtp_from: str | None = None
    #: Gets an e-mail when a job fails, and when that is over.
    notify_operator: str | None = None
    #: Which successes are told, besides those that end a trouble.
    notify_finished: Finishes = _RULES.finishes
    #: After so many hours it is told that a job is paused.
    notify_paused_after_h: float = Field(default=_RULES.paused_after / _HOUR, gt=0, le=PAUSED_H_MAX)

    def notifications(self) -> NotificationSettings | None:
        """Return whom to tell, None: nobody; raises InvalidInput, naming what is wrong."""
        webhook, email = self._webhook(), self._mail_server(EMAIL)
        if webhook is None and email is None:
            return None
        return NotificationSettings(
            webhook=webhook,
            email=email,
            operator_email=self._operator_email(),
            rules=NotificationRules(
                finishes=self.notify_finished, paused_after=self.notify_paused_after_h * _HOUR
            ),
        )

    def _webhook(self) -> Target | None:
        secrets = _secret("notify_webhook_secret", self)
        if self.notify_webhook_url is None:
            if secrets is not None:
                raise InvalidInput("notify_webhook_url", "set it too: a secret alone tells nobody")
            return None
        if secrets is None:
            raise InvalidInput(
                "notify_webhook_secret_file",
                "name a file with the secret; make one with: headgate notify secret",
            )
        signing = tuple(Secret(each) for each in secrets.reveal().split())
        return Target(name=WEBHOOK, url=self.notify_webhook_url, signing=signing)

    def _mail_server(self, name: str, recipient: str | None = None) -> MailServer | None:
        if self.smtp_host is None:
            return None
        if self.smtp_from is None:
            raise InvalidInput("smtp_from", "set the address that e-mails come from")
        password = _secret("smtp_password", self)
        return MailServer(
            name=name,
            url=mail_url(self.smtp_host, self.smtp_port or MAIL_PORTS[self.smtp_tls]),
            key=None if password is None else Secret(password.reveal().strip()),
            user=self.smtp_user,
            tls=self.smtp_tls,
            sender=self.smtp_from,
            recipient=recipient,
        )

    def _operator_email(self) -> MailServer | None:
        if self.notify_operator is None:
            return None
        server = self._mail_server(OPERATOR_EMAIL, self.notify_operator)
        if server is None:
            raise InvalidInput("smtp_host", "set it too: notify_operator is told by e-mail")
        return server


def _secret(name: str, fields: NotificationFields) -> Secret | None:
    """The secret of that name, or the content of its file; None if there is neither."""
    given: SecretStr | None = getattr(fields, name)
    file: Path | None = getattr(fields, f"{name}_file")
    if given is not None and file is not None:
        raise InvalidInput(name, f"{name} and {name}_file are both set; leave one of the two out")
    if file is not None:
        return read_private_file(f"{name}_file", file)
    return None if given is None else Secret(given.get_secret_value())
