"""Asks a person before something that cannot be undone; programs say `--yes`."""

import sys
from typing import Annotated

import typer

from headgate.base.errors import ConfirmationMissing
from headgate.toolkit.commands.loading import DECLINED, fail
from headgate.toolkit.commands.output import messages

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]


def ask(what: str, *, json: bool) -> None:
    """Ask on a terminal whether to do it; end if the answer is no, or if nobody can be asked."""
    if json or not (sys.stdin.isatty() and messages.is_terminal):
        raise ConfirmationMissing("--yes", f"{what}; add --yes if you mean it")
    if not typer.confirm(f"{what}; go on?", err=True):
        fail("nothing was changed", code=DECLINED)
