"""Asks before something that cannot be undone."""

import sys

import typer

from headgate.base.errors import InvalidInput
from headgate.toolkit.commands.loading import DECLINED, fail
from headgate.toolkit.commands.output import messages


def confirm(what: str, *, json: bool, otherwise: str = "if you mean all of them") -> None:
    """Ask on a terminal; end if the answer is no, or if there is nobody to ask.

    `otherwise` says when to add --yes instead.
    """
    if json or not (sys.stdin.isatty() and messages.is_terminal):
        raise InvalidInput("--yes", f"{what}; add --yes {otherwise}")
    if not typer.confirm(f"{what}; go on?", err=True):
        fail("nothing was changed", code=DECLINED)
