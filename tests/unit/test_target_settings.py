"""Targets in the settings: each taken whole from one place, refused by name, and never told."""

import json
from pathlib import Path

import pytest

from headgate import settings
from headgate.base.errors import InvalidInput

URL = "https://api.example.com"
SECRET = "hunter2-the-key"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_TARGETS", raising=False)
    return tmp_path


def write(folder: Path, name: str, text: str, mode: int = 0o600) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_targets_are_read_from_a_file_with_their_keys(folder: Path) -> None:
    write(folder, "local.key", f"{SECRET}\n")
    write(
        folder,
        "headgate.toml",
        f"""
        [targets.local]
        url = "http://127.0.0.1:8000"
        key_file = "local.key"
        concurrency = 2

        [targets.production]
        url = "{URL}"
        key = "{SECRET}"
        key_header = "authorization"
        """,
    )

    loaded = settings.load()
    local, production = loaded.target_list()

    assert (local.url, local.secrets[0].reveal(), local.concurrency) == (
        "http://127.0.0.1:8000",
        SECRET,
        2,
    )
    assert (local.protected, production.protected) == (False, True)
    assert (production.key_header, production.secrets[0].reveal()) == ("authorization", SECRET)
    assert SECRET not in repr(loaded) + str(loaded) + repr(loaded.target_list())


def test_targets_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"local": {"url": URL, "key": SECRET, "protected": True}}
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(given))

    [target] = settings.load().target_list()

    assert (target.name, target.url, target.protected) == ("local", URL, True)
    assert target.secrets[0].reveal() == SECRET


@pytest.mark.parametrize("lower", ["headgate.toml", "pyproject.toml"])
def test_a_url_from_one_place_never_gets_the_key_from_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lower: str
) -> None:
    table = "targets" if lower == "headgate.toml" else "tool.headgate.targets"
    both = f'url = "{URL}"\nkey = "{SECRET}"\n'
    write(folder, lower, f"[{table}.local]\n{both}\n[{table}.staging]\n{both}")
    elsewhere = {"local": {"url": "https://elsewhere.example"}}
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(elsewhere))

    with pytest.raises(InvalidInput, match=r"targets\.local: set either key or key_file"):
        settings.load().target_list()
    # A whole target replaces the one of the same name, and leaves the others.
    elsewhere["local"]["key"] = "another"
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(elsewhere))
    found = {each.name: each for each in settings.load().target_list()}
    assert (found["local"].url, found["local"].secrets[0].reveal()) == (
        "https://elsewhere.example",
        "another",
    )
    assert (found["staging"].url, found["staging"].secrets[0].reveal()) == (URL, SECRET)


@pytest.mark.parametrize("said", [False, 0, "false", "no", "off", "perhaps"])
@pytest.mark.parametrize("name", ["production", "local"])
def test_the_environment_cannot_open_a_target(
    monkeypatch: pytest.MonkeyPatch, name: str, said: object
) -> None:
    given = {name: {"url": URL, "key": SECRET, "protected": said}}
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(given))

    with pytest.raises(
        InvalidInput, match=rf"^targets\.{name}\.protected: HEADGATE_TARGETS can only protect"
    ):
        settings.load()


@pytest.mark.parametrize("file", ["headgate.toml", "pyproject.toml"])
@pytest.mark.parametrize("said", [{}, {"protected": None}, {"protected": True}])
def test_a_target_that_a_file_protects_is_not_replaced_by_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, said: dict[str, object]
) -> None:
    table = "targets.live" if file == "headgate.toml" else "tool.headgate.targets.live"
    write(folder, file, f'[{table}]\nurl = "{URL}"\nkey = "{SECRET}"\nprotected = true\n')
    given = {"live": {"url": "https://elsewhere.example", "key": "another", **said}}
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(given))

    with pytest.raises(InvalidInput, match=r"^targets\.live: a file protects it"):
        settings.load()


def test_a_file_can_open_a_target_and_the_environment_protects_it_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = f'url = "{URL}"\nkey = "{SECRET}"\n'
    write(
        folder,
        "pyproject.toml",
        f"[tool.headgate.targets.live]\n{at}protected = true\n",
    )
    write(
        folder,
        "headgate.toml",
        f"[targets.production]\n{at}protected = false\n[targets.live]\n{at}protected = false\n",
    )
    found = {each.name: each.protected for each in settings.load().target_list()}
    assert found == {"production": False, "live": False}

    given = {
        "production": {"url": URL, "key": SECRET},
        "live": {"url": URL, "key": SECRET, "protected": True},
    }
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(given))
    found = {each.name: each.protected for each in settings.load().target_list()}
    assert found == {"production": True, "live": True}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"local": {"key": SECRET}}, r"targets\.local\.url: .*set HEADGATE_TARGETS or `url` under"),
        ({"local": {"url": URL, "api_key": SECRET}}, r"targets\.local\.api_key: Extra inputs"),
        ({"local": {"url": URL, "key": [SECRET]}}, r"targets\.local\.key: "),
        ({"local": {"url": None, "key": SECRET}}, r"targets\.local\.url: "),
        ({"local": {"url": URL, "key": SECRET, "concurrency": 0}}, r"targets\.local\.concurrency"),
        (
            {"local": {"url": URL, "key": SECRET, "concurrency": 101}},
            r"targets\.local\.concurrency",
        ),
        ({"local": SECRET}, r"targets\.local: "),
        ([SECRET], r"targets: Input should be a valid dictionary"),
        ({"local": {"url": f"https://ada:{SECRET}@host", "key": SECRET}}, "target local: url: "),
        ({"local": {"url": URL, "key": ""}}, "target local: key: must be printable"),
        ({"local": {"url": URL}}, r"targets\.local: set either key or key_file"),
        ({"local": {"url": URL, "key": SECRET, "key_file": "k"}}, "set either key or key_file"),
        ({"local": {"url": URL, "key_file": "absent"}}, r"targets\.local\.key_file: absent cannot"),
        ({"Not A Name": {"url": URL, "key": SECRET}}, "target: 'Not A Name' must be lower-case"),
    ],
)
def test_a_wrong_target_is_refused_by_its_field_and_its_secret_is_not_told(
    monkeypatch: pytest.MonkeyPatch, given: object, told: str
) -> None:
    monkeypatch.setenv("HEADGATE_TARGETS", json.dumps(given))

    with pytest.raises(InvalidInput, match=told) as refused:
        settings.load().target_list()

    assert SECRET not in str(refused.value) + repr(refused.value)


def test_a_variable_that_is_no_json_is_refused_and_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_TARGETS", f'{{"local": {{"key": "{SECRET}"')

    with pytest.raises(InvalidInput, match="targets: is not JSON, such as") as refused:
        settings.load()
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[targets.local]\nkey = hunter2-the-key\n", r"headgate\.toml or .* is not TOML: .*line 2"),
        # It is not mixed with the project's own file, which has the key.
        (f'[targets.local]\nurl = "{URL}"\n', r"targets\.local: set either key or key_file"),
        (
            f'[targets.local]\nurl = "{URL}"\nkey_file = "open.key"\n',
            r"targets\.local\.key_file: .*chmod 600 open\.key",
        ),
    ],
    ids=["no TOML", "in two files", "for all to read"],
)
def test_a_wrong_file_is_refused(folder: Path, text: str, told: str) -> None:
    write(folder, "pyproject.toml", f'[tool.headgate.targets.local]\nkey = "{SECRET}"\n')
    write(folder, "open.key", SECRET, 0o644)
    write(folder, "headgate.toml", text)

    with pytest.raises(InvalidInput, match=told) as refused:
        settings.load().target_list()
    assert SECRET not in str(refused.value)


def test_pydantic_itself_does_not_tell_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="Extra inputs") as refused:
        settings.Settings.model_validate({"targets": {"a": {"url": URL, "api_key": SECRET}}})

    assert SECRET not in str(refused.value)
