"""`headgate outbox drain` and `worker`: send what waits, once or until the command is stopped."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.encoding import JsonObject
from headgate.base.errors import InvalidInput
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.flow.outbox.explain import explain_stop
from headgate.flow.outbox.service import BATCH_MAX
from headgate.model.target import Target
from headgate.toolkit.commands.command_line import example
from headgate.toolkit.commands.loading import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    log_as_json,
    report_errors,
    run,
)
from headgate.toolkit.commands.outbox.draining import drain_targets
from headgate.toolkit.commands.outbox.targets import (
    ApiKeyFileOption,
    ApiKeyOption,
    ApiUrlOption,
    ConfirmOption,
    EnvOption,
    RunOption,
    choose_target,
    choose_targets,
)
from headgate.toolkit.commands.outbox.worker import run_outbox_worker
from headgate.toolkit.commands.output import messages, out, print_json


@example("headgate outbox drain --env production --confirm production")
def drain(
    env: EnvOption = None,
    confirm: ConfirmOption = None,
    api_url: ApiUrlOption = None,
    api_key_file: ApiKeyFileOption = None,
    run_id: RunOption = None,
    limit: Annotated[
        int | None, typer.Option(help="How many, at most, to each target.", min=1)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent where.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
    api_key: ApiKeyOption = None,
) -> None:
    """Send what is due now; without --env, to every target that is not protected.

    A protected target is named twice: --env production --confirm production. A target that has
    stopped is tried with one delivery first. Ctrl-C finishes what is being sent and gives the rest
    back.

    Exit codes: 0 nothing failed, 1 a delivery failed or is dead or a target has stopped, 2 refused,
    3 a protected target is not confirmed, 4 the settings or the database, 130 interrupted.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    with report_errors(json=json):
        targets = _chosen(loaded, env, confirm, api_url, api_key_file)

    async def use(opened: App) -> int:
        if dry_run:
            await _print_plan(opened, targets, run_id, limit, json=json)
            return 0
        # Somebody asked for it, so a target that has stopped is tried.
        scope = DrainScope(limit=limit, run_id=run_id, probe=True)
        return await drain_targets(opened, targets, scope, json=json)

    raise typer.Exit(run(loaded, use, json=json))


def _chosen(
    app: App,
    env: str | None,
    confirm: str | None,
    api_url: str | None,
    api_key_file: Path | None,
) -> Sequence[Target]:
    if env is not None:
        return [choose_target(app, env, confirm, api_url, api_key_file)]
    if api_url is not None or api_key_file is not None:
        raise InvalidInput(
            "--env", "name the target whose deliveries go to --api-url with --api-key-file"
        )
    return choose_targets(app, (), () if confirm is None else (confirm,))


async def _print_plan(
    app: App, targets: Sequence[Target], run_id: str | None, limit: int | None, *, json: bool
) -> None:
    """Print how many deliveries a drain would send to each target."""
    stops = await app.outbox.stopped_targets()
    plan: list[JsonObject] = []
    for target in targets:
        due = await app.outbox.count_due(target, run_id=run_id)
        stop = stops.get(target.name)
        plan.append(
            {
                "target": target.name,
                "url": target.url,
                "due": due,
                "would_send": due if limit is None else min(due, limit),
                "stopped": None if stop is None else stop.reason,
            }
        )
        if not json:
            out.print(f"{target.name}: {plan[-1]['would_send']:,} would be sent to {target.url}")
            if stop is not None:
                messages.print(explain_stop(stop), markup=False)
    if json:
        print_json({"data": plan, "dry_run": True})
    else:
        messages.print("nothing was sent; to send it, run this without --dry-run")


@example("headgate outbox worker --env production --confirm production")
def worker(
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="Only this target; may be repeated.", metavar="NAME"),
    ] = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option(
            "--confirm",
            help="A protected target's name once more, else it is refused; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    interval_s: Annotated[
        float | None,
        typer.Option(
            help="The longest time between two looks; default: HEADGATE_OUTBOX_INTERVAL_S.", min=0.1
        ),
    ] = None,
    batch_limit: Annotated[
        int | None,
        typer.Option(
            help="How many are claimed at once; default: HEADGATE_OUTBOX_BATCH_LIMIT.",
            min=1,
            max=BATCH_MAX,
        ),
    ] = None,
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """Send messages until Ctrl-C or SIGTERM; without --env, to every target that is not protected.

    `headgate worker` does this too, besides its jobs, except for protected targets. Those need
    a worker of their own that names each twice in its command or unit file: --env production
    --confirm production.

    The first signal finishes what is being sent and gives the rest back; a second one ends at once.
    Nothing is lost either way.
    """
    loaded = load_app(app, database, needs_syncs=False, json=json)
    if json:
        log_as_json()
    given = {
        name: value
        for name, value in (("interval_s", interval_s), ("batch_limit", batch_limit))
        if value is not None
    }
    with report_errors(json=json):
        targets = choose_targets(loaded, env or (), confirm or ())
        settings = msgspec.structs.replace(loaded.outbox.settings, **given)
    run(
        loaded,
        lambda opened: run_outbox_worker(opened, targets, settings, json=json),
        json=json,
        creates=True,
        wait=True,
    )
