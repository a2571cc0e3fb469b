"""Draining by a command: what is due is sent now, once, and shown while it is sent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from headgate.app import App
from headgate.backends import open_target_transport
from headgate.base.together import all_ended
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.drain import Drainer
from headgate.flow.outbox.drain_scope import DrainScope
from headgate.model.target import Target
from headgate.toolkit.commands.loading import FAILED
from headgate.toolkit.commands.outbox.results import print_results, result_counts
from headgate.toolkit.commands.outbox.screen import SendingScreen
from headgate.toolkit.serving.stop_signals import INTERRUPTED, stop_on_signals


async def drain_with_progress(
    app: App,
    targets: Sequence[Target],
    scope: DrainScope,
    *,
    stop: asyncio.Event | None = None,
    json: bool = False,
) -> Sequence[DrainResult]:
    """Send what is due to the targets, to all at the same time, and show how far each is.

    On stdout nothing is printed. When `stop` is set, what is being sent is finished, and the rest
    is given back.
    """
    if not targets:
        return []
    totals: dict[str, int | None] = {}
    for target in targets:
        due = await app.outbox.count_due(target, run_id=scope.run_id)
        totals[target.name] = due if scope.limit is None else min(due, scope.limit)
    with SendingScreen(app.clock, totals, quiet=json) as screen:
        return await all_ended(_drain(app, target, scope, screen, stop) for target in targets)


async def _drain(
    app: App, target: Target, scope: DrainScope, screen: SendingScreen, stop: asyncio.Event | None
) -> DrainResult:
    async with _drainer_to(app, target) as (drainer, by_hand):
        return await drainer.drain(
            target,
            msgspec.structs.replace(scope, by_hand=by_hand),
            progress=lambda result: screen.show(
                target.name, result.processed, result_counts(result)
            ),
            stop=stop,
        )


async def drain_targets(
    app: App, targets: Sequence[Target], scope: DrainScope, *, json: bool = False
) -> int:
    """Drain the targets at the same time, print the final counts, and return the exit code.

    The first Ctrl-C or SIGTERM finishes what is being sent; the second one ends at once.
    """
    with stop_on_signals() as stop:
        results = await drain_with_progress(app, targets, scope, stop=stop, json=json)
        backlogs = {
            each.name: await app.outbox.backlog(each, run_id=scope.run_id) for each in targets
        }
        interrupted = stop.is_set()
    print_results(results, backlogs, interrupted=interrupted, json=json)
    if interrupted:
        return INTERRUPTED
    return FAILED if any(map(_went_wrong, results)) else 0


def _went_wrong(result: DrainResult) -> bool:
    return bool(result.failed or result.dead or result.stopped)


@asynccontextmanager
async def _drainer_to(app: App, target: Target) -> AsyncIterator[tuple[Drainer, bool]]:
    """What sends to the target, and whether its URL and key were given by hand."""
    own = app.outbox.drainer
    if target is app.outbox.targets.get(target.name):
        yield own, False
        return
    from headgate.senders.http import HttpSender

    # The app's own transport calls no other hosts and ports than those of its targets.
    transport = open_target_transport([target])
    assert transport is not None, "there is a target"
    try:
        yield own.with_sender(HttpSender(transport, own.clock)), True
    finally:
        await transport.close()
