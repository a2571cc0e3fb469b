"""`headgate outbox retry`, `replay`, `purge` and `resume`: correct what is under way."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from headgate.app import App
from headgate.base.errors import HeadgateError, InvalidInput
from headgate.flow.outbox.service import KEEP_DAYS_MAX
from headgate.flow.outbox.view import delivery_view
from headgate.model.states import DeliveryState
from headgate.ports.outbox import DeliveryFilter
from headgate.toolkit.commands.asking import ask
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.ids import DELIVERY, ids_argument, whole_id
from headgate.toolkit.commands.loading import (
    FAILED,
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    report_error,
    report_errors,
    run,
)
from headgate.toolkit.commands.outbox.screen import SendingScreen
from headgate.toolkit.commands.outbox.targets import (
    ConfirmOption,
    RunOption,
    choose_target,
    find_target,
)
from headgate.toolkit.commands.output import amount, messages, out, print_json
from headgate.toolkit.commands.parsing import parse_time, read_ids

#: The title of a purge on the screen.
_PURGING = "purging"

NamedEnvOption = Annotated[str, typer.Option("--env", help="The target.", metavar="NAME")]


class RetryState(StrEnum):
    """The states from which a delivery can be sent again."""

    PENDING = DeliveryState.PENDING.value
    FAILED = DeliveryState.FAILED.value
    DEAD = DeliveryState.DEAD.value


@example("headgate outbox retry --state dead --env local")
def retry(
    delivery_ids: Annotated[
        list[str] | None,
        ids_argument(DELIVERY, "deliveries", "DELIVERY"),
    ] = None,
    state: Annotated[RetryState | None, typer.Option(help="All in this state, with --env.")] = None,
    env: Annotated[
        str | None, typer.Option("--env", help="All to this target, with --state.", metavar="NAME")
    ] = None,
    run_id: RunOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask whether all that match are meant.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Send failed or dead deliveries again, at once and with their attempts at zero.

    Either name deliveries, or choose all that match: --state dead --env local. Workers send them;
    to send them from here, run `headgate outbox drain` afterwards. --state pending is for those
    that wait for a time far away, because a clock was wrong.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    with report_errors(json=json):
        named = read_ids(delivery_ids, DELIVERY.word) if delivery_ids else []
    code = run(
        loaded,
        lambda opened: (
            _retry_named(opened, named, json=json)
            if delivery_ids and state is None and env is None and run_id is None
            else _retry_matching(opened, named, state, env, run_id, yes=yes, json=json)
        ),
        json=json,
    )
    raise typer.Exit(code)


async def _retry_named(app: App, ids: Sequence[str], *, json: bool) -> int:
    done, refused = [], {}
    for one in ids:
        try:
            done.append(await app.outbox.retry(await whole_id(app, DELIVERY, one)))
        except HeadgateError as error:
            refused[one] = error
    if json:
        now = app.clock.now()
        data = [delivery_view(each, now=now) for each in done]
        print_json({"data": data, "refused": {one: str(why) for one, why in refused.items()}})
    else:
        for each in done:
            out.print(f"{each.id} is {each.state.value} again", markup=False)
        for why in refused.values():
            report_error(why, json=False)
    return FAILED if refused else 0


async def _retry_matching(
    app: App,
    ids: Sequence[str],
    state: RetryState | None,
    env: str | None,
    run_id: str | None,
    *,
    yes: bool,
    json: bool,
) -> int:
    if ids or state is None or env is None:
        raise InvalidInput(
            "delivery", "either name deliveries, or choose all that match: --state dead --env local"
        )
    which = DeliveryFilter(target=env, run_id=run_id, states=(DeliveryState(state.value),))
    matching = sum((await app.outbox.count(which)).get(env, {}).values())
    if matching and not yes:
        ask(f"{_deliveries(matching, state)} to {env} would be sent again", json=json)
    title = "retrying"
    with SendingScreen(app.clock, {title: matching}, quiet=json) as screen:
        show = partial(screen.show, title)
        done = await app.outbox.retry_all(which, progress=show) if matching else 0
    if json:
        print_json({"target": env, "state": state.value, "retried": done})
    else:
        out.print(f"to be sent to {env} again: {_deliveries(done, state)}", markup=False)
    return 0


def _deliveries(count: int, state: RetryState) -> str:
    return amount(count, f"{state.value} delivery", f"{state.value} deliveries")


@example("headgate outbox replay --env staging --since 24h --dry-run")
def replay(
    env: NamedEnvOption,
    since: Annotated[
        datetime,
        typer.Option(
            help="Messages since this day or time, UTC if it has no zone; 24h: since a day ago.",
            parser=parse_time,
            metavar="TIME",
        ),
    ],
    confirm: ConfirmOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; add nothing.")] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Send old messages to a target that has not got them, such as a new one.

    It is safe to stop and to repeat: no message goes to a target twice. Messages that were purged
    are gone. Workers send them; to send them from here, run `headgate outbox drain` afterwards.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    with report_errors(json=json):
        target = choose_target(loaded, env, confirm)

    async def use(opened: App) -> int:
        missing = await opened.outbox.count_replayable(target, since=since)
        if dry_run:
            return missing
        title = "replaying"
        with SendingScreen(opened.clock, {title: missing}, quiet=json) as screen:
            show = partial(screen.show, title)
            return await opened.outbox.replay(target, since=since, progress=show)

    count = run(loaded, use, json=json)
    if json:
        print_json({"target": env, "messages": count, "dry_run": dry_run})
    elif dry_run:
        out.print(f"to be sent to {env}: {_messages(count)}", markup=False)
        messages.print("nothing was added; to add them, run this without --dry-run")
    else:
        out.print(f"on the way to {env}: {_messages(count)}", markup=False)
        if count:
            twice = "" if confirm is None else f" --confirm {confirm}"
            messages.print(f"next: headgate outbox drain --env {env}{twice}", markup=False)


@example("headgate outbox purge --older-than 30")
def purge(
    older_than: Annotated[
        float | None,
        typer.Option(
            help="Days since every target accepted it; default: HEADGATE_KEEP_SENT_DAYS.",
            metavar="DAYS",
            min=0,
            max=KEEP_DAYS_MAX,
        ),
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Delete those that a target rejected, instead.")
    ] = False,
    env: Annotated[
        str | None,
        typer.Option("--env", help="With --dead: that this target rejected.", metavar="NAME"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --dead: do not ask whether they are meant.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Delete the messages that every target accepted long ago; they cannot be replayed.

    Every worker does this by itself, at its start and every hour: `headgate worker`, `headgate
    outbox worker`, and those of systems that send. It is safe to stop and to repeat.

    What a target rejected stays until somebody deletes it: --dead, which asks first. What is still
    on its way to another target is kept.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    age = loaded.outbox.settings.keep_sent if older_than is None else timedelta(days=older_than)

    async def use(opened: App) -> int:
        if dead:
            return await _purge_dead(opened, age, env, yes=yes, json=json)
        for option, given in (("--env", env is not None), ("--yes", yes)):
            if given:
                raise InvalidInput(option, "only with --dead")
        with SendingScreen(opened.clock, {_PURGING: None}, quiet=json) as screen:
            show = partial(screen.show, _PURGING)
            return await opened.outbox.purge(older_than=age, progress=show)

    count = run(loaded, use, json=json)
    if json:
        shown = {"messages": count, "older_than_days": _days(age)}
        print_json({**shown, "dead": True} if dead else shown)
    else:
        which = (
            _rejected(env, age) if dead else f"all targets accepted over {_days(age):g} days ago"
        )
        out.print(f"purged: {_messages(count)} that {which}", markup=False)


async def _purge_dead(app: App, age: timedelta, env: str | None, *, yes: bool, json: bool) -> int:
    count = await app.outbox.count_dead(older_than=age, target=env)
    if not count:
        if env is not None:
            # A target that is not configured any more may have rejected something, but not none.
            find_target(app, env)
        return 0
    if not yes:
        which = _rejected(env, age)
        ask(f"{_messages(count)} that {which} would be deleted for good", json=json)
    with SendingScreen(app.clock, {_PURGING: count}, quiet=json) as screen:
        show = partial(screen.show, _PURGING)
        return await app.outbox.purge_dead(older_than=age, target=env, progress=show)


def _rejected(env: str | None, age: timedelta) -> str:
    return f"{env or 'a target'} rejected over {_days(age):g} days ago"


def _days(age: timedelta) -> float:
    return age / timedelta(days=1)


def _messages(count: int) -> str:
    return amount(count, "message", "messages")


@example("headgate outbox resume --env local")
def resume(
    env: NamedEnvOption,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Let a target go on that has stopped, once its URL or its key is corrected."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def use(opened: App) -> bool:
        return await opened.outbox.resume(find_target(opened, env).name)

    resumed = run(loaded, use, json=json)
    if json:
        print_json({"target": env, "resumed": resumed})
    else:
        out.print(f"{env} goes on" if resumed else f"{env} had not stopped", markup=False)
