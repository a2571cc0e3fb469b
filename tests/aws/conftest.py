"""The stack of the template on an emulator, for tests that call its functions by hand."""

import zipfile

import pytest

from headgate.secrets import aws_keys
from tests.aws_stack import Stack, client, create_stack
from tests.connecting import key_entries
from tests.emulators import CREDENTIALS

KEYS_SECRET = "headgate/keys"


@pytest.fixture(scope="package")
def aws_address(ministack_address: str) -> str:
    """The emulator's address; it has the secret with the encryption keys."""
    client("secretsmanager", ministack_address).create_secret(
        Name=KEYS_SECRET, SecretString=",".join(key_entries("k1"))
    )
    return ministack_address


@pytest.fixture(autouse=True)
def aws_environment(aws_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of a function, for one test: others of the process have their own."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": aws_address}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADGATE_KEYS_SECRET", KEYS_SECRET)
    aws_keys.read_secret.cache_clear()
    return aws_address


@pytest.fixture(scope="package")
def stack(aws_address: str, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The stack, whose functions are called by the tests and not by its queues."""
    code = tmp_path_factory.mktemp("code") / "none.zip"
    with zipfile.ZipFile(code, "w") as made:
        made.writestr("nothing.txt", "")
    by_hand = create_stack(aws_address, "by-hand", code)
    by_hand.stop_sources()
    return by_hand
