"""`headgate price-history …`: scrape the shop, and deliver what waits, under the known names.

The two sync commands are thin: `headgate outbox` drains the same outbox in the same way.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from headgate import App, DeliveryFilter, DeliveryState, DrainScope, InvalidInput
from headgate.systems.price_history import system
from headgate.systems.price_history.settings import DEFAULT, PriceHistorySettings
from headgate.systems.price_history.syncs import NAME
from headgate.toolkit.commands import (
    ApiKeyFileOption,
    ApiKeyOption,
    ApiUrlOption,
    AppOption,
    ConfirmOption,
    DatabaseOption,
    EnvOption,
    JsonOption,
    RunOption,
    amount,
    check_confirms,
    choose_target,
    choose_targets,
    counts_text,
    drain_targets,
    drain_with_progress,
    example,
    load_app,
    log_as_json,
    log_errors_only,
    messages,
    out,
    print_json,
    report_errors,
    run,
    run_outbox_worker,
    watch,
    watch_json,
)
from headgate.types import DrainResult

#: Whose scraping it is, unless somebody is named.
USER = "scraper"
_WAITING = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.FAILED)

commands = typer.Typer(
    help="Scrape a shop's prices, and deliver them to backends.", no_args_is_help=True
)


@commands.command()
@example("headgate price-history scrape")
def scrape(
    user: Annotated[str, typer.Option("--user", help="Whose prices they are.")] = USER,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Scrape the shop once, and deliver its prices if a backend can be reached.

    If none can, they wait: sync-worker and sync-pending deliver them later. If none is configured,
    they are stored, and `headgate outbox replay` sends them to one that is configured later. Exits
    with 0 if the shop was scraped, whether or not its prices were delivered.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    log_errors_only()

    async def work(opened: App) -> int:
        settings = _settings(opened)
        if settings.shop_url is None:
            raise InvalidInput("HEADGATE_SHOP_URL", "is not set: it is the shop to scrape")
        names = _known_targets(opened, settings)
        submitted = await opened.jobs.submit(NAME, user_id=user)
        supervisor = opened.supervisor()
        await supervisor.start()
        try:
            follow = watch_json if json else watch
            code = await follow(opened, submitted.job.id, user_id=None, timeout_s=None)
        finally:
            await supervisor.stop()
        # The worker has delivered while it scraped; the last pages may be left.
        await deliver_run(opened, submitted.job.id, names, json=json)
        run_id = submitted.job.id
        if names:
            await _print_delivered(opened, run_id, json=json)
        else:
            await _print_stored(opened, run_id, json=json)
        return code

    raise typer.Exit(run(loaded, work, json=json, creates=True))


@commands.command("sync-pending")
@example("headgate price-history sync-pending --limit 10")
def sync_pending(
    limit: Annotated[int, typer.Option(help="How many batches, at most.", min=1)] = 50,
    run_id: RunOption = None,
    env: EnvOption = None,
    confirm: ConfirmOption = None,
    api_url: ApiUrlOption = None,
    api_key_file: ApiKeyFileOption = None,
    api_key: ApiKeyOption = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Deliver batches that wait, now and once.

    Without --env they go to the default backend: SYNC_API_URL, BACKEND_API_URL, or else
    SCRAPER_API_URL_LOCAL. Exits with 1 if anything failed or a backend has stopped.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)

    async def work(opened: App) -> int:
        settings = _settings(opened)
        if env is None and confirm is not None:
            check_confirms([], [confirm])
        names = [env] if env is not None else _default_targets(opened, settings)
        targets = [choose_target(opened, each, confirm, api_url, api_key_file) for each in names]
        scope = DrainScope(limit=limit, run_id=run_id, probe=True)
        return await drain_targets(opened, targets, scope, json=json)

    with report_errors(json=json):
        code = run(loaded, work, json=json)
    raise typer.Exit(code)


@commands.command("sync-worker")
@example("headgate price-history sync-worker")
def sync_worker(
    env: Annotated[
        list[str] | None, typer.Option("--env", help="Only this backend.", metavar="NAME")
    ] = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option("--confirm", help="A protected backend's name once more.", metavar="NAME"),
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Deliver batches in the background, until Ctrl-C or SIGTERM.

    It looks every SYNC_WORKER_INTERVAL_MS (60000), and when something is enqueued, for at most
    SYNC_WORKER_BATCH_LIMIT (50) batches at once.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    if json:
        log_as_json()

    async def work(opened: App) -> None:
        settings = _settings(opened)
        check_confirms(env or [], confirm or [])
        names = env or _default_targets(opened, settings)
        targets = choose_targets(opened, names, confirm or [])
        pace = msgspec.structs.replace(
            opened.outbox.settings,
            interval_s=settings.sync_worker_interval_ms / 1000,
            batch_limit=settings.sync_worker_batch_limit,
        )
        await run_outbox_worker(opened, targets, pace, json=json)

    run(loaded, work, json=json, creates=True, wait=True)


async def deliver_run(
    app: App, run_id: str, names: Sequence[str], *, json: bool
) -> Sequence[DrainResult]:
    """Deliver what is left of a run to those backends of these names that need no confirmation."""
    targets = [each for each in app.outbox.targets.open_targets() if each.name in names]
    scope = DrainScope(run_id=run_id, probe=True)
    return await drain_with_progress(app, targets, scope, json=json)


async def _print_delivered(app: App, run_id: str, *, json: bool) -> None:
    """Print how many batches of a run have arrived where."""
    counted = await app.outbox.count(DeliveryFilter(run_id=run_id))
    shown = {
        target: {
            "sent": states[DeliveryState.SENT],
            "waiting": sum(states[each] for each in _WAITING),
            "dead": states[DeliveryState.DEAD],
        }
        for target, states in counted.items()
    }
    if json:
        print_json({"run_id": run_id, "delivered": shown})
        return
    for target, counts in shown.items():
        out.print(f"{target}: {counts_text(counts)}", markup=False)
        if counts["sent"] < sum(counts.values()):
            messages.print("see why: headgate outbox list", markup=False)


async def _print_stored(app: App, run_id: str, *, json: bool) -> None:
    """Print how many prices of a run are stored, and how a backend gets them later."""
    job = await app.jobs.get(run_id)
    prices = job.summary.records
    problem, name = _missing_backend(app)
    advice = (
        f"nothing was sent, because {problem}. To send what is stored, run "
        f"headgate outbox replay --env {name} --since {job.created_at:%Y-%m-%d}"
    )
    if json:
        print_json({"run_id": run_id, "records": prices, "delivered": {}, "next": advice})
        return
    out.print(f"stored: {amount(prices, 'price', 'prices')}", markup=False)
    messages.print(advice, markup=False, soft_wrap=True)


def _settings(app: App) -> PriceHistorySettings:
    """Return the system's settings; raises InvalidInput if they are wrong or it is not started."""
    started = app.systems.get(system.name)
    if started is None:
        # Says which setting is wrong, if one is.
        system.with_settings()
        raise InvalidInput("systems", f"{system.name} is not started: see `headgate systems`")
    settings: PriceHistorySettings = started.configuration
    return settings


def _known_targets(app: App, settings: PriceHistorySettings) -> Sequence[str]:
    """Return where prices go by default, perhaps nowhere; InvalidInput if one is not configured."""
    names = settings.default_targets()
    for name in names:
        try:
            app.outbox.targets.get(name)
        except InvalidInput as error:
            raise InvalidInput("HEADGATE_PRICE_HISTORY_TARGETS", error.problem) from None
    return names


def _default_targets(app: App, settings: PriceHistorySettings) -> Sequence[str]:
    names = _known_targets(app, settings)
    if not names:
        raise InvalidInput("--env", _missing_backend(app)[0])
    return names


def _missing_backend(app: App) -> tuple[str, str]:
    """Return why prices go nowhere and what to set, and the backend that they may go to then."""
    known = app.outbox.targets.names
    if not known:
        return (
            "no backend is configured: set BACKEND_API_URL and API_KEY, or SYNC_API_URL and "
            "SYNC_API_KEY",
            DEFAULT,
        )
    return (
        f"none of the backends ({', '.join(known)}) is the default: set "
        "HEADGATE_PRICE_HISTORY_TARGETS",
        known[0],
    )
