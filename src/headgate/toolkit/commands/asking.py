"""Asks a person before something that cannot be undone; programs say `--yes`."""

import sys
from textwrap import fill
from typing import Annotated

import typer

from headgate.base.errors import ConfirmationMissing
from headgate.toolkit.commands.loading import DECLINED, fail
from headgate.toolkit.commands.output import messages

#: What is printed after a question.
_ANSWERS = " [y/N]: "

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]


def ask(what: str, *, json: bool) -> None:
    """Ask on a terminal whether to do it; end if the answer is no, or if nobody can be asked."""
    if json or not (sys.stdin.isatty() and messages.is_terminal):
        raise ConfirmationMissing("--yes", f"{what}; add --yes if you mean it")
    width = messages.width - len(_ANSWERS)
    question = fill(f"{what}; go on?", width, break_long_words=False, break_on_hyphens=False)
    if not typer.confirm(question, err=True):
        fail("nothing was changed", code=DECLINED)
