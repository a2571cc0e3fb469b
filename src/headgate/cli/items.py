"""`headgate items …`: how the streams stand, which are stuck, and setting them going again."""

import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headgate.app import App
from headgate.base.encoding import from_json
from headgate.base.errors import HeadgateError
from headgate.cli.loading import FAILED, AppOption, DatabaseOption, JsonOption, load_app, run
from headgate.cli.output import messages, out, print_json
from headgate.flow.explain import moment
from headgate.flow.jobs import LIST_MAX
from headgate.model.item import Item
from headgate.model.states import ItemState
from headgate.systems.activity_streams import COLLECTION, STREAMS, ActivityStreams, StreamStats

commands = typer.Typer(
    help="See how things that are fetched one by one stand, and reset them.", no_args_is_help=True
)

#: Not colour alone: every state has its word, and a mark that reads without colour.
_MARKS = {
    ItemState.PENDING: ("○", "cyan"),
    ItemState.FETCHING: ("▶", "blue"),
    ItemState.SUCCESS: ("✔", "green"),
    ItemState.FAILED: ("✘", "red"),
    ItemState.DEFERRED: ("‖", "yellow"),
    ItemState.UNAVAILABLE: ("⊘", "magenta"),
}


@commands.command()
def stats(
    user: Annotated[str | None, typer.Option("--user", help="With this user's progress.")] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Count them: by state, by failures, and what the provider's limits leave."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    found = run(loaded, lambda opened: _streams(opened).stats(user_id=user), json=json)
    if json:
        print_json(from_json(msgspec.json.encode(found)))
        return
    _print_counts(found.states)
    for line in _lines(found):
        out.print(line, markup=False)
    for name, counts in (found.athletes or {}).items():
        out.print(Text(f"of {name}", style="bold"))
        _print_counts(counts)


def _streams(app: App) -> ActivityStreams:
    """Where the application has them; else UnknownSync, with the syncs that it has."""
    app.runtime.registry.get(STREAMS)
    return ActivityStreams(app)


def _print_counts(counts: dict[str, int]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for state in ItemState:
        table.add_row(_state_text(state), f"{counts.get(state.value, 0):,}")
    out.print(table)


def _lines(found: StreamStats) -> list[str]:
    lines = []
    if found.retries:
        tries = " · ".join(f"{count:,} after {tries}" for tries, count in _sorted(found.retries))
        lines.append(f"failed, by tries: {tries}")
    stuck = f"stuck until they are reset: {found.stuck:,}"
    if found.stuck:
        stuck += "; see headgate items list --state failed"
    lines += [stuck, f"429 from the provider in the last 24 hours: {found.limited_24h:,}"]
    lines += [
        f"{window.limit}: {window.used:,} of {window.amount:,} used, {window.reserved:,} kept for "
        f"live work; resets at {moment(window.resets_at)}"
        for window in found.windows
    ]
    return lines


def _sorted(counts: dict[int, int]) -> list[tuple[int, int]]:
    return sorted(counts.items())


@commands.command("list")
def list_items(
    state: Annotated[list[ItemState] | None, typer.Option(help="Only these states.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user's.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=LIST_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Go on after this id.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List them, in the order of their ids."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    found = run(
        loaded,
        lambda opened: opened.items.list_items(
            COLLECTION, user_id=user, states=state or (), limit=limit, after=after
        ),
        json=json,
    )
    if json:
        following = found[-1].id if len(found) == limit else None
        print_json({"data": [_fields(each) for each in found], "next_after": following})
    elif not found:
        messages.print("no items")
    else:
        _print_items(found)


@commands.command()
def reset(
    item_ids: Annotated[list[str], typer.Argument(help="Their ids.", metavar="ITEM…")],
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch them afresh, with a clean sheet; whoever holds one is shut out."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def use(opened: App) -> tuple[list[Item], dict[str, str]]:
        done, refused = [], {}
        streams = _streams(opened)
        for item_id in item_ids:
            try:
                done.append(await streams.reset(item_id))
            except HeadgateError as error:
                refused[item_id] = str(error)
        return done, refused

    done, refused = run(loaded, use, json=json)
    if json:
        print_json({"data": [_fields(each) for each in done], "refused": refused})
    else:
        for item in done:
            out.print(f"{item.id} is {item.state.value} again", markup=False)
        for why in refused.values():
            messages.print("[bold red]error[/]", end=" ")
            messages.print(why, markup=False)
    if refused:
        raise typer.Exit(FAILED)


def _print_items(found: Sequence[Item]) -> None:
    """A table of items; plain and untruncated when piped."""
    if not out.is_terminal:
        for item in found:
            fields = (item.id, item.state.value, item.user_id, str(item.retry_count), _when(item))
            sys.stdout.write("\t".join((*fields, item.error or "")) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("item", "state", "user", "failed", "next try", "last error"):
        table.add_column(column, no_wrap=column != "last error", overflow="fold")
    for item in found:
        table.add_row(
            Text(item.id),
            _state_text(item.state),
            Text(item.user_id),
            str(item.retry_count),
            _when(item),
            Text(item.error or ""),
        )
    out.print(table)


def _when(item: Item) -> str:
    if item.next_attempt_at is not None:
        return moment(item.next_attempt_at)
    return "when it is reset" if item.stuck else ""


def _state_text(state: ItemState) -> Text:
    mark, colour = _MARKS[state]
    return Text(f"{mark} {state.value}", style=colour)


def _fields(item: Item) -> object:
    return from_json(msgspec.json.encode({**msgspec.structs.asdict(item), "stuck": item.stuck}))
