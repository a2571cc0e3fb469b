"""`headgate budget`: what is left of each provider's budget, who spent it, and what was refused."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from headgate.app import App
from headgate.base.errors import InvalidInput
from headgate.flow.jobs.explain import span
from headgate.model.budget import BudgetUse, WindowUse
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import AppOption, JsonOption, load_app, run
from headgate.toolkit.commands.output import messages, out, print_json

_BAR_WIDTH = 20


@example("headgate budget strava")
def budget(
    source: Annotated[str | None, typer.Argument(help="Only this provider's budget.")] = None,
    connection: Annotated[
        str | None, typer.Option("--connection", help="Include this connection's own limits.")
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Show what is left of the providers' budgets."""

    async def use(opened: App) -> tuple[Sequence[BudgetUse], datetime]:
        wanted = await _source_of(opened, source, connection)
        uses = await opened.budgets.use(wanted, connection_id=connection)
        return uses, opened.clock.now()

    uses, now = run(load_app(app, None, needs_syncs=True, json=json), use, json=json)
    if json:
        print_json({"data": msgspec.to_builtins(uses, str_keys=True)})
        return
    if not uses:
        messages.print("no source of this app declares a budget")
    for each in uses:
        _print(each, now)


async def _source_of(app: App, source: str | None, connection: str | None) -> str | None:
    """Return the source to show; refuse a connection that does not exist, or is to another one."""
    sources = app.registry.budgets if source is None else [source]
    # At a source without `auth`, any user's id is a connection.
    if connection is None or not all(each in app.registry.auths for each in sources):
        return source
    found = await app.connections.get(connection)
    if source not in (None, found.source):
        raise InvalidInput("connection", f"{connection} is a connection to {found.source}")
    return found.source


def _print(use: BudgetUse, now: datetime) -> None:
    title = use.source if use.connection_id is None else f"{use.source} / {use.connection_id}"
    out.print(Text(title, style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for window in use.windows:
        table.add_row(Text(window.limit, style="cyan"), _bar(window, now))
        table.add_row("", Text(_spenders_text(window), style="dim"))
    out.print(table)
    for line in _lines(use, now):
        out.print(line, markup=False)


def _bar(window: WindowUse, now: datetime) -> Text:
    filled = min(_BAR_WIDTH, _BAR_WIDTH * window.used // window.amount)
    style = "green" if window.remaining > window.reserved else "yellow"
    return Text.assemble(
        ("█" * filled, style if window.remaining else "red"),
        ("░" * (_BAR_WIDTH - filled), "dim"),
        f"  {window.used:,} of {window.amount:,} used, {window.remaining:,} left; "
        f"resets in {span((window.resets_at - now).total_seconds())}",
    )


def _spenders_text(window: WindowUse) -> str:
    if window.unknown:
        return "the limiter lost its count, so this counts as spent until it is over"
    parts = [f"live {window.hot:,}", f"backfill {window.cold:,}"]
    if window.retries:
        parts.append(f"retries among them {window.retries:,}")
    if window.reserved:
        parts.append(f"reserved for live work {window.reserved:,}")
    if window.theirs is not None:
        parts.append(f"by the provider's own count {window.theirs:,}")
    return " · ".join(parts)


def _lines(use: BudgetUse, now: datetime) -> list[str]:
    lines = []
    if use.closed_until is not None:
        wait = span((use.closed_until - now).total_seconds())
        lines.append(f"closed: the provider answered 429; requests go on in {wait}")
    if use.next_cold_at is not None:
        wait = span((use.next_cold_at - now).total_seconds())
        lines.append(f"the next backfill request is due in {wait}")
    if use.slots is not None:
        lines.append(f"requests at the same time: {use.slots_used} of {use.slots}")
    refused = use.refused_24h
    lines.append(
        f"last 24 hours: 429 from the provider {use.answers_429_24h}"
        f" · we refused: for the reserve {refused['reserve']} · for the pace {refused['pace']}"
        f" · budget spent {refused['spent']} · no free slot {refused['slots']}"
    )
    return lines
