"""`headgate outbox …`: the group of its commands, and those that show messages on their way."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headgate.app import App
from headgate.base.times import format_time
from headgate.cli.outbox.correcting import purge, replay, resume, retry
from headgate.cli.outbox.sending import drain, worker
from headgate.flow.jobs.service import LIST_MAX
from headgate.flow.outbox.explain import explain_stop
from headgate.flow.outbox.view import DeliveryView, delivery_view, message_view
from headgate.model.delivery import Message, TargetStop
from headgate.model.states import DeliveryState
from headgate.ports.outbox import DeliveryFilter
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.ids import DELIVERY, complete, whole_id
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.outbox.targets import RunOption, explain_unstarted, find_target
from headgate.toolkit.commands.output import messages, out, print_facts, print_json
from headgate.toolkit.paging import Page, page_of

commands = typer.Typer(
    help="Send messages to targets; look at them, retry and replay them.", no_args_is_help=True
)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1

_COLUMNS = ("delivery", "target", "state", "run", "attempts", "next attempt", "last error")
#: How narrow the last column may get.
ERROR_WIDTH_MIN = 30

#: The mark and colour of each state; the word and the mark make sense without the colour.
_MARKS = {
    DeliveryState.PENDING: ("○", "cyan"),
    DeliveryState.SENDING: ("▶", "blue"),
    DeliveryState.SENT: ("✔", "green"),
    DeliveryState.FAILED: ("‖", "yellow"),
    DeliveryState.DEAD: ("✘", "red"),
}


class _DeliveryPage(msgspec.Struct, frozen=True):
    """What `list` shows."""

    page: Page[DeliveryView]
    counts: Mapping[str, Mapping[DeliveryState, int]]
    stops: Sequence[TargetStop]


@commands.command("list")
@example("headgate outbox list --env local --state failed")
def list_deliveries(
    env: Annotated[
        str | None, typer.Option("--env", help="Only to this target.", metavar="NAME")
    ] = None,
    state: Annotated[list[DeliveryState] | None, typer.Option(help="Only these states.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only about this topic.")] = None,
    run_id: RunOption = None,
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only ids after this one.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List deliveries, the oldest message first, with counts and the targets that have stopped."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    which = DeliveryFilter(
        target=env, topic=topic, run_id=run_id, user_id=user, states=tuple(state or ())
    )

    async def find(opened: App) -> _DeliveryPage:
        stops = await opened.outbox.stopped_targets()
        found = await opened.outbox.list(which, limit=limit + 1, after=after)
        if env is not None and not found:
            # A target that is not configured any more may still have deliveries, but not none.
            find_target(opened, env)
        now = opened.clock.now()
        views = [delivery_view(each, now=now, stop=stops.get(each.target)) for each in found]
        return _DeliveryPage(
            page_of(views, limit),
            {} if json else await opened.outbox.count(which),
            [stop for name, stop in stops.items() if env in (None, name)],
        )

    found = run_list(loaded, find, json=json)
    if json:
        print_json(found.page)
        return
    _print_summary(found)
    if found.page.data:
        _print_deliveries(found.page.data)
    else:
        messages.print("no deliveries")
        if loaded.unstarted:
            messages.print(explain_unstarted(loaded), markup=False, soft_wrap=True)
    if found.page.next_cursor is not None:
        messages.print(f"there are more: --after {found.page.next_cursor}", markup=False)


def _print_summary(found: _DeliveryPage) -> None:
    """Print the counts by target and state, and the stops; on stderr, so a pipe has only rows."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for target, counts in sorted(found.counts.items()):
        cells = [Text.assemble(_state_text(state), f" {counts[state]:,}") for state in _MARKS]
        table.add_row(Text(target, style="bold"), *cells)
    if found.counts:
        messages.print(table)
    for stop in found.stops:
        messages.print(Text.assemble(("stopped", "bold red"), " ", explain_stop(stop)))
    if messages.is_terminal and found.page.data:
        messages.print()


def _print_deliveries(found: Sequence[DeliveryView]) -> None:
    """Print a table of deliveries; plain and untruncated when piped."""
    if not out.is_terminal:
        for each in found:
            fields = (each.id, each.target, each.state.value, each.run_id or "")
            tried = (str(each.attempts), _next_text(each), each.error or "")
            sys.stdout.write("\t".join((*fields, *tried)) + "\n")
        return
    rows = [
        (
            Text(each.id),
            Text(each.target),
            _state_text(each.state),
            Text(each.run_id or ""),
            Text(str(each.attempts)),
            Text(_next_text(each)),
            Text(each.error or ""),
        )
        for each in found
    ]
    # Ids are copied from here, so a narrow terminal breaks lines rather than cut them.
    widths = [max(map(len, cells)) for cells in zip(map(Text, _COLUMNS), *rows, strict=True)]
    widths[-1] = min(widths[-1], ERROR_WIDTH_MIN)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(_COLUMNS, widths, strict=True):
        table.add_column(column, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    needed = sum(widths) + 2 * len(widths)
    out.print(table, width=max(out.width, needed), crop=False)


def _next_text(delivery: DeliveryView) -> str:
    if delivery.next_attempt_at is not None:
        return format_time(delivery.next_attempt_at)
    return "when it is retried" if delivery.state is DeliveryState.DEAD else ""


def _state_text(state: DeliveryState) -> Text:
    mark, colour = _MARKS[state]
    return Text(f"{mark} {state.value}", style=colour)


@commands.command()
@example("headgate outbox show del_01J8")
def show(
    delivery_id: Annotated[
        str,
        typer.Argument(
            help="The delivery's id, or its beginning.",
            metavar="DELIVERY",
            autocompletion=complete(DELIVERY),
        ),
    ],
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Show one delivery: what happened, what happens next, and the message that it sends."""
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def find(opened: App) -> tuple[DeliveryView, Message]:
        found = await opened.outbox.get(await whole_id(opened, DELIVERY, delivery_id))
        message = await opened.outbox.get_message(found.message_id)
        stop = (await opened.outbox.stopped_targets()).get(found.target)
        return delivery_view(found, now=opened.clock.now(), stop=stop), message

    delivery, message = run(loaded, find, json=json)
    if json:
        print_json({"delivery": delivery, "message": message_view(message)})
        return
    out.print(Text.assemble((delivery.id, "bold"), "  ", _state_text(delivery.state)))
    out.print(delivery.message, markup=False)
    print_facts(_facts(delivery, message))
    out.print(_pretty(message), markup=False, soft_wrap=True)


def _facts(delivery: DeliveryView, message: Message) -> list[tuple[str, str]]:
    changed = "" if message.intact else " (the payload was changed after it was enqueued)"
    return [
        ("target", delivery.target),
        ("topic", delivery.topic),
        ("run", delivery.run_id or ""),
        ("user", delivery.user_id or ""),
        ("attempts", str(delivery.attempts)),
        ("workers lost", str(delivery.crashes) if delivery.crashes else ""),
        ("last attempt", _time(delivery.attempted_at)),
        ("next attempt", _time(delivery.next_attempt_at)),
        ("sent", _time(delivery.sent_at)),
        ("last error", delivery.error or ""),
        ("message", message.id),
        ("key", message.key),
        ("hash", f"{message.payload_hash}{changed}"),
        ("size", f"{len(message.payload.encode()):,} bytes"),
        ("created", _time(message.created_at)),
    ]


def _time(at: datetime | None) -> str:
    return "" if at is None else format_time(at)


def _pretty(message: Message) -> str:
    try:
        return msgspec.json.format(message.payload, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return message.payload


# In the order in which help lists them, after those above.
for each in (drain, retry, replay, purge, resume, worker):
    commands.command()(each)
