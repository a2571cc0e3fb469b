"""Parts of the commands that send messages: choosing targets, draining, running the worker.

`headgate outbox` is made of them, and so are the commands of systems that have an outbox of their
own to look after.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.backends import open_target_transport
from headgate.base.encoding import JsonObject
from headgate.base.errors import AddressRefused, ConfirmationMissing, InvalidInput
from headgate.base.secret import Secret
from headgate.connectors.private_files import read_api_key
from headgate.connectors.urls import origin_of
from headgate.flow.drain import Drainer, DrainResult, DrainScope
from headgate.flow.explain import format_time
from headgate.flow.outbox import OutboxSettings
from headgate.loops.drainer import Purger, TargetWorker
from headgate.model.target import Target
from headgate.ports.outbox import Backlog
from headgate.toolkit.commands.loading import FAILED
from headgate.toolkit.commands.output import amount, counts_text, messages, out, print_json
from headgate.toolkit.commands.sending_screen import SendingScreen

#: The exit code after Ctrl-C or SIGTERM.
INTERRUPTED = 130

_NO_TARGETS = (
    "none is configured, so there is nowhere to send to. Write one into headgate.toml, such as "
    '[targets.local] with url = "http://127.0.0.1:8000" and key_file = "local.key"; an app of your '
    "own passes App(targets=[…])"
)
_NO_TOPICS = (
    "this app declares none, so it has nothing to send: `headgate systems` says which systems are "
    "not started; an app of your own passes App(topics=[…])"
)

EnvOption = Annotated[str | None, typer.Option("--env", help="The target.", metavar="NAME")]
ConfirmOption = Annotated[
    str | None,
    typer.Option(
        "--confirm", help="A protected target's name once more, else it is refused.", metavar="NAME"
    ),
]
RunOption = Annotated[str | None, typer.Option("--run-id", help="Only messages of this run.")]
ApiUrlOption = Annotated[
    str | None,
    typer.Option(
        "--api-url", help="Send to this URL instead of the target's own, with --api-key-file."
    ),
]
ApiKeyFileOption = Annotated[
    Path | None,
    typer.Option("--api-key-file", help="The key for --api-url, in a file with mode 0600."),
]


def _refuse_key(given: str | None) -> None:
    if given is not None:
        raise typer.BadParameter(
            "other users of this machine could read it; write the key into a file with mode 0600 "
            "and use --api-key-file",
            param_hint="--api-key",
        )


#: Exists only to say what to use instead; what was given is not repeated.
ApiKeyOption = Annotated[
    str | None, typer.Option("--api-key", hidden=True, callback=_refuse_key, expose_value=False)
]


# ---- choosing targets --------------------------------------------------------------------------


def check_sends(app: App) -> None:
    """Raise InvalidInput, saying what to do, if the application has nothing or nowhere to send."""
    if not len(app.outbox.targets):
        raise InvalidInput("targets", _NO_TARGETS)
    if not app.outbox.targets.topics:
        raise InvalidInput("topics", _NO_TOPICS)


def choose_target(
    app: App,
    env: str,
    confirm: str | None = None,
    api_url: str | None = None,
    api_key_file: Path | None = None,
) -> Target:
    """The target called `env`; with the URL and the key that were given by hand, if they were.

    Raises InvalidInput if it is protected and not confirmed, or if the URL has the host and the
    port of another target that is protected.
    """
    check_sends(app)
    targets = app.outbox.targets
    target = targets.choose(env, confirm=confirm)
    if confirm is not None and confirm != env:
        raise InvalidInput("--confirm", f"{confirm} is not the target that --env names, {env}")
    if api_url is None and api_key_file is None:
        return target
    if api_url is None or api_key_file is None:
        raise InvalidInput(
            "--api-url and --api-key-file",
            "belong together: give both or neither, so that no key goes to another's URL",
        )
    key = read_api_key("--api-key-file", api_key_file)
    given = _at(target, api_url, key)
    for other in targets:
        if other.protected and other.name != env and other.place == given.place:
            raise InvalidInput(
                "--api-url",
                f"has the same host and port as {other.name}, which is protected; "
                f"use --env {other.name} --confirm {other.name}",
            )
    return given


def _at(target: Target, api_url: str, key: Secret) -> Target:
    """The target at another URL, which must be one that the transport would call."""
    try:
        # Without its signatures: whoever is there could pass the messages on as ours.
        given = msgspec.structs.replace(target, url=api_url, key=key, signing=())
        # A spelling such as 127.1 would pass for another place than 127.0.0.1.
        origin_of(api_url)
    except InvalidInput as error:
        raise InvalidInput("--api-url", error.problem.removeprefix("url: ")) from None
    except AddressRefused as error:
        raise InvalidInput("--api-url", str(error)) from None
    return given


def choose_targets(app: App, envs: Sequence[str], confirms: Sequence[str]) -> Sequence[Target]:
    """The targets that are named, or else all that need no confirmation."""
    check_sends(app)
    targets = app.outbox.targets
    for name in confirms:
        if name not in envs:
            raise InvalidInput("--confirm", f"{name} is not chosen: add --env {name}")
    if envs:
        names = dict.fromkeys(envs)
        return [targets.choose(name, confirm=name if name in confirms else None) for name in names]
    opened = targets.open_targets()
    if not opened:
        name = targets.names[0]
        raise ConfirmationMissing(
            "--env",
            f"every target is protected ({', '.join(targets.names)}): "
            f"name one twice, --env {name} --confirm {name}",
        )
    return opened


# ---- draining ----------------------------------------------------------------------------------


async def drain_with_progress(
    app: App,
    target: Target,
    scope: DrainScope,
    *,
    stop: asyncio.Event | None = None,
    json: bool = False,
) -> DrainResult:
    """Send what is due to the target, and show how far it is; on stdout nothing is printed.

    When `stop` is set, what is being sent is finished, and the rest is given back.
    """
    due = await app.outbox.count_due(target, run_id=scope.run_id)
    total = due if scope.limit is None else min(due, scope.limit)
    async with _drainer_to(app, target) as (drainer, by_hand):
        with SendingScreen(app.clock, target.name, total, quiet=json) as screen:
            return await drainer.drain(
                target,
                msgspec.structs.replace(scope, by_hand=by_hand),
                progress=lambda result: screen.show(result.processed, _counts(result)),
                stop=stop,
            )


async def drain_targets(
    app: App, targets: Sequence[Target], scope: DrainScope, *, json: bool = False
) -> int:
    """Drain one target after the other, print the final counts, and return the exit code.

    The first Ctrl-C or SIGTERM finishes what is being sent; the second one ends at once.
    """
    results: list[DrainResult] = []
    backlogs: dict[str, Backlog] = {}
    with _stopping() as stop:
        for target in targets:
            if not stop.is_set():
                results.append(await drain_with_progress(app, target, scope, stop=stop, json=json))
                backlogs[target.name] = await app.outbox.backlog(target, run_id=scope.run_id)
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
    from headgate.connectors.http_sender import HttpSender

    # The app's own transport calls no other hosts and ports than those of its targets.
    transport = open_target_transport([target])
    assert transport is not None, "there is a target"
    try:
        yield own.with_sender(HttpSender(transport, own.clock)), True
    finally:
        await transport.close()


@contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the block at once."""
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    assert task is not None
    handled = (signal.SIGTERM, signal.SIGINT)

    def ask() -> None:
        if stop.is_set():
            task.cancel()
            return
        messages.print("stopping when what is being sent is finished; Ctrl-C again stops at once")
        stop.set()

    for number in handled:
        loop.add_signal_handler(number, ask)
    try:
        yield stop
    except asyncio.CancelledError:
        # What was being sent is sent again when its leases expire.
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


# ---- final counts ------------------------------------------------------------------------------


def print_results(
    results: Sequence[DrainResult],
    backlogs: Mapping[str, Backlog] | None = None,
    *,
    interrupted: bool = False,
    json: bool = False,
) -> None:
    """Print what was sent to each target, and what to do about the rest.

    `backlogs` has what was left behind, by target, where that is known.
    """
    left = backlogs or {}
    if json:
        data = [result_document(each, left.get(each.target)) for each in results]
        print_json({"data": data, "interrupted": interrupted})
        return
    for each in results:
        given_back = {"given back": each.released} if each.released else {}
        counts = {"processed": each.processed, **_counts(each), **given_back}
        out.print(f"{each.target}: {counts_text(counts)}", markup=False)
        for line in [*_advice(each), *_left_behind(each.target, left.get(each.target))]:
            messages.print(line, markup=False)
    if interrupted:
        messages.print("interrupted; what was not sent waits as before")


def result_document(result: DrainResult, backlog: Backlog | None = None) -> JsonObject:
    """The document of a drain, with what it left behind, where that is known."""
    document = {"processed": result.processed, **msgspec.to_builtins(result)}
    if backlog is None:
        return document
    return {
        **document,
        "waiting": backlog.waiting,
        "next_attempt_at": msgspec.to_builtins(backlog.next_attempt_at),
        "claimed": backlog.claimed,
    }


def _counts(result: DrainResult) -> dict[str, int]:
    return {"sent": result.sent, "failed": result.failed, "dead": result.dead}


def _advice(result: DrainResult) -> list[str]:
    lines = []
    if result.stopped is not None:
        lines.append(
            f"{result.target} has stopped: {result.stopped}. Its deliveries wait, and none is "
            "lost: correct its URL or its key, and try again"
        )
    elif result.rest_s is not None:
        lines.append(
            f"{result.target} is down or busy: a worker sends the rest, or run this again later"
        )
    for state, count in (("failed", result.failed), ("dead", result.dead)):
        if count:
            lines.append(
                f"see why: headgate outbox list --env {result.target} --state {state}",
            )
    return lines


def _left_behind(target: str, backlog: Backlog | None) -> list[str]:
    lines = []
    if backlog is not None and backlog.next_attempt_at is not None:
        waits = amount(backlog.waiting, "delivery waits", "deliveries wait")
        first = format_time(backlog.next_attempt_at)
        lines.append(f"{target}: {waits} for a later attempt, the first one at {first}")
        lines += [
            f"do not wait: headgate outbox retry --state {state.value} --env {target}"
            for state in sorted(backlog.later)
        ]
    if backlog is not None and backlog.claimed:
        has = amount(backlog.claimed, "delivery is", "deliveries are")
        lines.append(f"{target}: {has} claimed by another worker right now")
    return lines


# ---- the worker --------------------------------------------------------------------------------


async def run_outbox_worker(
    app: App, targets: Sequence[Target], settings: OutboxSettings
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
    purger = Purger(app.outbox.drainer.store, settings.keep_sent, clock=app.clock)
    with _stopping() as stop:
        names = ", ".join(each.name for each in targets)
        messages.print(
            f"sending to {names} as {app.name}, at least every {settings.interval_s:g} s; "
            "Ctrl-C stops",
            markup=False,
        )
        for service in (*workers, purger):
            await service.start()
        await stop.wait()
        await asyncio.gather(*(service.stop() for service in (*workers, purger)))
    totals = [worker.totals for worker in workers]
    print_results(totals)
    return totals
