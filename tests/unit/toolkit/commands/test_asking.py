"""Questions before what cannot be undone, on a terminal of any width."""

import pytest
import typer
from rich.console import Console

from headgate.toolkit.commands import asking
from headgate.toolkit.commands.loading import DECLINED

WHAT = "everything that is stored of somebody-with-a-long-name would be deleted for ever"


@pytest.mark.parametrize(("columns", "answers"), [(60, True), (60, False), (120, True)])
def test_a_question_is_broken_between_words_and_no_ends_it(
    monkeypatch: pytest.MonkeyPatch, columns: int, answers: bool
) -> None:
    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        asked.append(question)
        return answers

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", confirm)
    screen = Console(stderr=True, width=columns, force_terminal=True)
    monkeypatch.setattr(asking, "messages", screen)

    if answers:
        asking.ask(WHAT, json=False)
    else:
        with pytest.raises(typer.Exit) as ended:
            asking.ask(WHAT, json=False)
        assert ended.value.exit_code == DECLINED

    [question] = asked
    assert question.replace("\n", " ") == f"{WHAT}; go on?"
    assert all(len(f"{line} [y/N]: ") <= columns for line in question.splitlines())
