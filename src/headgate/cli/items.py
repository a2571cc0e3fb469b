"""`headgate items …`: count items by state, list them, and reset those that are stuck."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headgate.app import App
from headgate.base.encoding import from_json
from headgate.base.errors import InvalidInput
from headgate.base.times import format_time
from headgate.flow.items.service import ItemStats
from headgate.flow.items.view import ItemView, item_view
from headgate.flow.jobs.service import LIST_MAX
from headgate.model.budget import WindowUse
from headgate.model.states import ItemState
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.each import do_to_each
from headgate.toolkit.commands.ids import ITEM, ids_argument
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    run,
    run_list,
)
from headgate.toolkit.commands.output import out, print_json, print_page
from headgate.toolkit.paging import page_of

commands = typer.Typer(
    help="Count, list and reset items, which are fetched one by one.", no_args_is_help=True
)

#: One less than the store's limit: one more is read, to know whether there are more.
PAGE_MAX = LIST_MAX - 1

#: The mark and colour of each state; the word and the mark make sense without the colour.
_MARKS = {
    ItemState.PENDING: ("○", "cyan"),
    ItemState.FETCHING: ("▶", "blue"),
    ItemState.SUCCESS: ("✔", "green"),
    ItemState.FAILED: ("✘", "red"),
    ItemState.DEFERRED: ("‖", "yellow"),
    ItemState.UNAVAILABLE: ("⊘", "magenta"),
}


@commands.command()
@example("headgate items stats --user ada")
def stats(
    collection: Annotated[str | None, typer.Option(help="Only of this collection.")] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Also count this user's items.")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Count the items of each collection by state and by failures, and show the limits."""
    loaded = load_app(app, None, needs_syncs=True, json=json)
    counted = run(loaded, lambda opened: _stats(opened, collection, user), json=json)
    if json:
        print_json(from_json(msgspec.json.encode(counted)))
        return
    for each in counted.collections:
        out.print(Text(f"{each.title} ({each.name})", style="bold"))
        _print_counts(each.states)
        for line in _lines(each):
            out.print(line, markup=False)
        if each.of_user is not None:
            out.print(Text(f"of {user}", style="bold"))
            _print_counts(each.of_user)
    for source, windows in counted.windows.items():
        for window in windows:
            out.print(f"{source} {_window(window)}", markup=False)


class _Stats(msgspec.Struct, frozen=True):
    collections: Sequence[ItemStats]
    #: By provider; empty while the limiter cannot be reached.
    windows: Mapping[str, Sequence[WindowUse]]


async def _stats(app: App, collection: str | None, user_id: str | None) -> _Stats:
    declared = app.registry.collections
    if not declared:
        raise InvalidInput("syncs", "no sync of this app declares a collection of items")
    uses = [await app.budgets.find(source) for source in app.registry.budgets]
    wanted = declared if collection is None else [collection]
    return _Stats(
        [await app.items.stats(name, user_id=user_id) for name in wanted],
        {use.source: use.windows for use in uses if use is not None},
    )


def _print_counts(counts: Mapping[ItemState, int]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for state in ItemState:
        table.add_row(_state_text(state), f"{counts[state]:,}")
    out.print(table)


def _lines(found: ItemStats) -> list[str]:
    lines = []
    if found.retries:
        failed = sorted(found.retries.items())
        tries = " · ".join(f"{count:,} after {tries}" for tries, count in failed)
        lines.append(f"failed, by attempts: {tries}")
    stuck = f"stuck until they are reset: {found.stuck:,}"
    if found.stuck:
        stuck += f"; see headgate items list --collection {found.name} --state failed"
    return [*lines, stuck, f"429 from the provider in the last 24 hours: {found.limited_24h:,}"]


def _window(use: WindowUse) -> str:
    return (
        f"{use.limit}: {use.used:,} of {use.amount:,} used, "
        f"{use.reserved:,} reserved for live work; resets at {format_time(use.resets_at)}"
    )


@commands.command("list")
@example("headgate items list --state failed --user ada")
def list_items(
    collection: Annotated[str | None, typer.Option(help="Only of this collection.")] = None,
    state: Annotated[list[ItemState] | None, typer.Option(help="Only these states.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only items of this user.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="Only ids after this one.")] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List items, in the order of their ids."""
    loaded = load_app(app, database, needs_syncs=False, json=json)
    found = run_list(
        loaded,
        lambda opened: opened.items.list(
            collection, user_id=user, states=state or (), limit=limit + 1, after=after
        ),
        json=json,
    )
    page = page_of([item_view(each) for each in found], limit)
    columns = ("item", "collection", "state", "user", "failed", "next try", "last error")
    print_page(page, columns, _row, json=json, none="no items")


@commands.command()
@example("headgate items list --state failed | headgate items reset -")
def reset(
    item_ids: Annotated[
        list[str],
        ids_argument(ITEM, "items", "ITEM"),
    ],
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch items afresh: clear their attempts, and take them from workers that claimed them."""

    async def act(opened: App, one: str) -> None:
        item = await opened.items.reset(one)
        if json:
            print_json(item_view(item))
        else:
            out.print(f"{item.id} is {item.state.value} again", markup=False)

    do_to_each(ITEM, item_ids, act, app=app, needs_syncs=True, json=json)


def _row(item: ItemView) -> Sequence[str | Text]:
    tried = (str(item.retry_count), _next_try_text(item), item.error or "")
    return (item.id, item.collection, _state_text(item.state), item.user_id, *tried)


def _next_try_text(item: ItemView) -> str:
    if item.next_attempt_at is not None:
        return format_time(item.next_attempt_at)
    return "when it is reset" if item.stuck else ""


def _state_text(state: ItemState) -> Text:
    mark, colour = _MARKS[state]
    return Text(f"{mark} {state.value}", style=colour)
