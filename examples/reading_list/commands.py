"""`headgate reading-list`: a user's reading list in the terminal."""

from typing import Annotated

import typer

from headgate.toolkit.commands import (
    AppOption,
    DatabaseOption,
    JsonOption,
    load_app,
    messages,
    out,
    print_json,
    run_list,
)

LIST_MAX = 200


def reading_list(
    user: Annotated[str, typer.Option("--user", help="Whose list.")],
    app: AppOption = None,
    database: DatabaseOption = None,
    json: JsonOption = False,
) -> None:
    """List what a user saved to read later, and what of it they have read."""
    # Imported here, so that `--help` stays quick.
    from .articles import articles_of

    loaded = load_app(app, database, needs_syncs=True, json=json)
    articles = run_list(loaded, lambda opened: articles_of(opened, user, limit=LIST_MAX), json=json)
    if json:
        print_json({"data": articles})
        return
    for each in articles:
        out.print(each.id, each.state, "read" if each.read_at else "-", each.title, markup=False)
    if not articles:
        messages.print(f"nothing is on the list of {user}", markup=False)
