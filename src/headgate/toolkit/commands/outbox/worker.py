"""The worker of a command: it sends to targets in the background until it is stopped."""

import asyncio
from collections.abc import Sequence

from headgate.app import App
from headgate.flow.outbox.attempts import DrainResult
from headgate.flow.outbox.service import OutboxSettings
from headgate.loops.drainer import TargetWorker
from headgate.loops.pruner import sent_pruner
from headgate.model.target import Target
from headgate.toolkit.commands.outbox.results import print_results
from headgate.toolkit.commands.output import messages
from headgate.toolkit.serving.stop_signals import SENDING, stop_on_signals


async def run_outbox_worker(
    app: App, targets: Sequence[Target], settings: OutboxSettings, *, json: bool = False
) -> Sequence[DrainResult]:
    """Send to these targets until Ctrl-C or SIGTERM; returns and prints what was sent.

    What was sent long ago is deleted meanwhile, at the start and every hour.

    The first signal finishes what is being sent and gives the rest back; the second one ends at
    once.
    """
    workers = [
        TargetWorker(app.outbox.drainer, each, settings, signal=app.outbox.signal, clock=app.clock)
        for each in targets
    ]
    pruner = sent_pruner(app.outbox.drainer.store, settings.keep_sent, app.clock)
    with stop_on_signals(say="" if json else SENDING) as stop:
        names = ", ".join(each.name for each in targets)
        if not json:
            messages.print(
                f"sending to {names} as {app.name}, at least every {settings.interval_s:g} s; "
                "Ctrl-C stops",
                markup=False,
            )
        for service in (*workers, pruner):
            await service.start()
        await stop.wait()
        await asyncio.gather(*(service.stop() for service in (*workers, pruner)))
    totals = [worker.totals for worker in workers]
    print_results(totals, json=json)
    return totals
