"""Does the same to several things that are named on the command line, one after another."""

from collections.abc import Awaitable, Callable, Sequence

import typer

from headgate.app import App
from headgate.base.errors import HeadgateError
from headgate.toolkit.commands.ids import IdKind, whole_id
from headgate.toolkit.commands.loading import FAILED, load_app, report_error, report_errors, run
from headgate.toolkit.commands.parsing import read_ids


def do_to_each(
    kind: IdKind,
    given: Sequence[str],
    act: Callable[[App, str], Awaitable[None]],
    *,
    app: str | None,
    database: str | None = None,
    needs_syncs: bool = False,
    json: bool,
) -> None:
    """Call `act` with each id; an error of one is told and does not stop the rest.

    An id may be given by its beginning, and `-` stands for those on stdin.
    """
    loaded = load_app(app, database, needs_syncs=needs_syncs, json=json)
    with report_errors(json=json):
        ids = read_ids(given, kind.word)

    async def use(opened: App) -> int:
        refused = 0
        for one in ids:
            try:
                await act(opened, await whole_id(opened, kind, one))
            except HeadgateError as error:
                # With one id alone, the exit code says what kind of error it was.
                if len(ids) == 1:
                    raise
                refused += 1
                report_error(error, json=json)
        return refused

    if run(loaded, use, json=json):
        raise typer.Exit(FAILED)
