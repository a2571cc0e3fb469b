"""`headgate notify …`: try whether notifications arrive, and list what people were told."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.base.ids import system_random
from headgate.base.signing import new_signing_secret
from headgate.base.times import format_time
from headgate.flow.notifications.service import NotificationSettings, NotificationTest
from headgate.flow.outbox.explain import explain_delivery
from headgate.model.notification import TroubleRow
from headgate.model.states import DeliveryState
from headgate.model.target import Target
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    FAILED,
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    log_errors_only,
    report_errors,
    run,
    run_list,
)
from headgate.toolkit.commands.output import messages, out, print_json, print_table

LIST_MAX = 1000

_NOBODY = (
    "nobody is notified. Set HEADGATE_SMTP_HOST and HEADGATE_SMTP_FROM for e-mails, or "
    "HEADGATE_NOTIFY_WEBHOOK_URL and HEADGATE_NOTIFY_WEBHOOK_SECRET_FILE for a webhook; an app of "
    "your own passes App(notifications=…)"
)

commands = typer.Typer(
    help="Try whether notifications arrive, and list what people were told.", no_args_is_help=True
)


@commands.command()
@example("headgate notify test --email ada@example.org")
def test(
    email: Annotated[
        str | None,
        typer.Option(help="Send an e-mail to this address, as to a user.", metavar="ADDRESS"),
    ] = None,
    webhook: Annotated[bool, typer.Option("--webhook", help="Send to the webhook.")] = False,
    operator: Annotated[
        bool, typer.Option("--operator", help="Send an e-mail to HEADGATE_NOTIFY_OPERATOR.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Send a test, in the same way as any notification, and say what became of it.

    Without options it goes to the webhook and to the operator, as far as they are configured.

    Exit codes: 0 all were accepted, 1 one was not, 2 refused, 4 the settings or the database.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    with report_errors(json=json):
        chosen = _chosen(loaded.notifications.settings, email, webhook=webhook, operator=operator)

    async def use(opened: App) -> Sequence[NotificationTest]:
        return [await opened.notifications.test(target, to=to) for target, to in chosen]

    log_errors_only()
    tested = run(loaded, use, json=json, creates=True)
    if json:
        print_json({"data": [_document(each) for each in tested]})
    else:
        for each in tested:
            _print(each, loaded)
    if any(each.delivery.state is not DeliveryState.SENT for each in tested):
        raise typer.Exit(FAILED)


def _chosen(
    settings: NotificationSettings | None, email: str | None, *, webhook: bool, operator: bool
) -> Sequence[tuple[Target, str | None]]:
    """The targets to test, each with the address to send to; InvalidInput if one is missing."""
    if settings is None:
        raise InvalidInput("notifications", _NOBODY)
    everything = email is None and not webhook and not operator
    places = (
        (webhook, settings.webhook, None, "--webhook", "HEADGATE_NOTIFY_WEBHOOK_URL"),
        (operator, settings.operator_email, None, "--operator", "HEADGATE_NOTIFY_OPERATOR"),
        (email is not None, settings.email, email, "--email", "HEADGATE_SMTP_HOST"),
    )
    chosen: list[tuple[Target, str | None]] = []
    for wanted, target, to, option, variable in places:
        if wanted and target is None:
            raise InvalidInput(option, f"it is not configured: set {variable}")
        is_users = target is not None and target is settings.email
        if target is not None and (wanted or (everything and not is_users)):
            chosen.append((target, to))
    if not chosen:
        raise InvalidInput("--email", "name the address that the e-mail goes to")
    return chosen


def _document(tested: NotificationTest) -> JsonObject:
    delivery = tested.delivery
    return {
        "target": delivery.target,
        "delivery": delivery.id,
        "state": delivery.state.value,
        "error": delivery.error,
        "stopped": None if tested.stop is None else tested.stop.reason,
    }


def _print(tested: NotificationTest, app: App) -> None:
    delivery = tested.delivery
    told = explain_delivery(delivery, now=app.clock.now(), stop=tested.stop)
    to_stdout = out if delivery.state is DeliveryState.SENT else messages
    to_stdout.print(told, markup=False)
    if delivery.error is not None and tested.stop is None:
        messages.print(f"{delivery.target}: {delivery.error}", markup=False)


@commands.command("list")
@example("headgate notify list --user ada")
def list_troubles(
    user: Annotated[str | None, typer.Option(help="Only of this user.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=LIST_MAX)] = 50,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List what is the matter, as people were told, until they are told that it is over."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> Sequence[TroubleRow]:
        return await opened.notifications.troubles(user_id=user, limit=limit + 1)

    found = run_list(loaded, find, json=json)
    if json:
        data = [msgspec.to_builtins(each) for each in found[:limit]]
        print_json({"data": data, "more": len(found) > limit})
        return
    columns = ("user", "connection", "sync", "told", "since", "job")
    print_table(columns, [_fields(each) for each in found[:limit]])
    if not found:
        messages.print("nothing is the matter, as far as anybody was told")
    elif len(found) > limit:
        messages.print(f"there are more: --limit {LIST_MAX}")


def _fields(row: TroubleRow) -> Sequence[str]:
    told = "" if row.trouble is None else row.trouble.value
    sync, since = row.sync or "(all)", format_time(row.updated_at)
    return row.user_id, row.connection_id, sync, told, since, row.job_id


@commands.command()
@example("headgate notify secret > webhook.secret")
def secret(json: JsonOption = False) -> None:
    """Make a secret that signs what the webhook gets. It is printed once, and stored nowhere."""
    made = new_signing_secret(system_random()).reveal()
    if json:
        print_json({"secret": made})
    else:
        out.print(made, markup=False)
        messages.print(
            "next: write it into a file with mode 0600, name that in "
            "HEADGATE_NOTIFY_WEBHOOK_SECRET_FILE, and give it to the receiver"
        )
