"""Options by which people choose the targets of a command, and what is chosen by them.

`headgate outbox` uses them, and so do the commands of systems that look after an outbox.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headgate.app import App
from headgate.base.errors import AddressRefused, ConfirmationMissing, InvalidInput
from headgate.base.secret import Secret
from headgate.model.target import Target
from headgate.net.urls import origin_of
from headgate.secrets.private_files import read_api_key

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


def check_sends(app: App) -> None:
    """Raise InvalidInput, saying what to do, if the application has nothing or nowhere to send."""
    unstarted = explain_unstarted(app)
    if not len(app.outbox.targets):
        problem = f"none is configured: {unstarted}" if unstarted else _NO_TARGETS
        raise InvalidInput("targets", problem)
    if not app.outbox.targets.topics:
        problem = f"this app declares none: {unstarted}" if unstarted else _NO_TOPICS
        raise InvalidInput("topics", problem)


def explain_unstarted(app: App) -> str:
    """Why systems of the application could not be started, one after the other; empty: all were."""
    told = [f"{name} is not started ({why})" for name, why in app.unstarted.items()]
    return "; ".join(told)


def find_target(app: App, name: str) -> Target:
    """The target of that name; InvalidInput says why it may be missing."""
    try:
        return app.outbox.targets.get(name)
    except InvalidInput as error:
        unstarted = explain_unstarted(app)
        if not unstarted:
            raise
        raise InvalidInput(error.field, f"{error.problem}; {unstarted}") from None


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
    find_target(app, env)
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


def check_confirms(envs: Sequence[str], confirms: Sequence[str]) -> None:
    """Raise InvalidInput if --confirm names a target that --env does not name.

    What a setting chooses is not confirmed by this alone: a person has to name a target twice.
    """
    for name in confirms:
        if name not in envs:
            raise InvalidInput("--confirm", f"{name} is not chosen: add --env {name}")


def choose_targets(app: App, envs: Sequence[str], confirms: Sequence[str]) -> Sequence[Target]:
    """The targets that are named, or else all that need no confirmation."""
    check_sends(app)
    check_confirms(envs, confirms)
    targets = app.outbox.targets
    if envs:
        names = dict.fromkeys(envs)
        for name in names:
            find_target(app, name)
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
