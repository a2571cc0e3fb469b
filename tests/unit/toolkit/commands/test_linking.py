"""Signed links from the command line: as the server signs them, or a word on how to."""

from pathlib import Path

import pytest
import typer

from headgate import App
from headgate.base.secret import Secret
from headgate.secrets.keys import KeyRing
from headgate.secrets.links import Links
from headgate.toolkit.commands.linking import build_links, site_url
from headgate.toolkit.commands.loading import CONFIG
from tests.connecting import key_entries


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_KEYS", raising=False)


def test_a_link_is_opened_by_a_server_with_the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    [entry] = key_entries("k1")
    monkeypatch.setenv("HEADGATE_KEYS", entry)
    app = App("sqlite:///never.db")

    token = build_links(app).page_token("book", "7", user_id="ada")

    opened = Links(KeyRing.parse(Secret(entry)), app.clock).open_page("book", token)
    assert (opened.id, opened.user_id) == ("7", "ada")


def test_without_keys_it_says_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        build_links(App("sqlite:///never.db"))
    assert ended.value.exit_code == CONFIG
    assert "headgate keys new" in capsys.readouterr().err


def test_pages_are_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert site_url() == "http://127.0.0.1:8080"
    monkeypatch.setenv("HEADGATE_PUBLIC_URL", "https://sync.example/")
    assert site_url() == "https://sync.example"
