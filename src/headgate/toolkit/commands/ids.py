"""Ids on the command line: the beginning of one is enough, and a shell completes them."""

import io
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any

import msgspec
import typer

from headgate.app import App
from headgate.base.errors import InvalidInput, NotFound
from headgate.toolkit.commands.loading import load_app, run

#: How many ids are looked at to know whether a beginning is unique, and offered to a shell.
MATCHES_MAX = 20
#: The letters of a ULID; `Z` is the last of its alphabet.
_ULID_LENGTH, _LAST = 26, "Z"


class IdKind(msgspec.Struct, frozen=True):
    """A kind of thing that has ids."""

    #: What people call it; also the field of an error.
    word: str
    #: Finds ids near a beginning, at most `MATCHES_MAX`; those that begin so are among them.
    find: Callable[[App, str], Awaitable[Sequence[str]]]
    #: Raises NotFound for an id that does not exist; None: ids are always long.
    get: Callable[[App, str], Awaitable[object]] | None = None


async def _jobs(app: App, begin: str) -> Sequence[str]:
    # Jobs are listed from the newest: the first are those before the last id that begins so.
    before = begin.ljust(len("job_") + _ULID_LENGTH, _LAST)
    return [each.id for each in await app.jobs.list(before=before, limit=MATCHES_MAX)]


async def _connections(app: App, begin: str) -> Sequence[str]:
    return [each.id for each in await app.connections.list(after=begin, limit=MATCHES_MAX)]


async def _items(app: App, begin: str) -> Sequence[str]:
    return [each.id for each in await app.items.list(after=begin, limit=MATCHES_MAX)]


async def _deliveries(app: App, begin: str) -> Sequence[str]:
    return [each.id for each in await app.outbox.list(after=begin, limit=MATCHES_MAX)]


async def _api_keys(app: App, begin: str) -> Sequence[str]:
    return [each.id for each in await app.api_keys.list(after=begin, limit=MATCHES_MAX)]


JOB = IdKind("job", _jobs)
CONNECTION = IdKind("connection", _connections)
# The source chooses the ids of its items, so one may be the beginning of another.
ITEM = IdKind("item", _items, lambda app, item_id: app.items.get(item_id))
DELIVERY = IdKind("delivery", _deliveries)
API_KEY = IdKind("api key", _api_keys)


async def whole_id(app: App, kind: IdKind, text: str) -> str:
    """The only id that begins with `text`; InvalidInput if there are several.

    If there is none it is `text` itself: the command says that nothing has that id.
    """
    if kind.get is not None:
        with suppress(NotFound):
            await kind.get(app, text)
            return text
    elif len(text.rpartition("_")[2]) >= _ULID_LENGTH:
        return text
    found = [each for each in await kind.find(app, text) if each.startswith(text)]
    if len(found) <= 1:
        return found[0] if found else text
    shown = ", ".join(sorted(found)[:3])
    more = f"at least {len(found)}" if len(found) == MATCHES_MAX else str(len(found))
    raise InvalidInput(kind.word, f"{more} begin with {text!r}, such as {shown}: type more of it")


def complete(kind: IdKind) -> Callable[[typer.Context, str], Sequence[str]]:
    """A function by which a shell completes ids of that kind."""

    async def begin_so(app: App, begin: str) -> Sequence[str]:
        return [each for each in await kind.find(app, begin) if each.startswith(begin)]

    return _completer(begin_so)


def ids_argument(kind: IdKind, things: str, metavar: str) -> Any:
    """The argument of a command that does the same to several things of that kind."""
    return typer.Argument(
        help=f"The {things}' ids, or their beginnings; - reads them from stdin.",
        metavar=metavar,
        autocompletion=complete(kind),
    )


async def _syncs(app: App, begin: str) -> Sequence[str]:
    return [each for each in app.registry.names if each.startswith(begin)]


def _completer(
    find: Callable[[App, str], Awaitable[Sequence[str]]],
) -> Callable[[typer.Context, str], Sequence[str]]:
    def offered(ctx: typer.Context, incomplete: str) -> Sequence[str]:
        # Whatever is wrong, a shell only wants to know that there is nothing to offer.
        with suppress(Exception), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            app = load_app(ctx.params.get("app"), ctx.params.get("database"), needs_syncs=False)
            return run(app, lambda opened: find(opened, incomplete))
        return []

    return offered


complete_syncs = _completer(_syncs)
