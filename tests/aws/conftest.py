"""The stack of the template on an emulator, for tests that call its functions by hand."""

import zipfile
from collections.abc import Iterator

import pytest

from headgate.connectors import aws_keys
from tests.aws_stack import Stack, client, create_stack
from tests.connecting import key_entries
from tests.emulators import CREDENTIALS

KEYS_SECRET = "headgate/keys"


@pytest.fixture(scope="package")
def aws_environment(ministack_address: str) -> Iterator[str]:
    """The environment of a function on the emulator, whose address this is."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": ministack_address}.items():
            patched.setenv(name, value)
        aws_keys.read_secret.cache_clear()
        client("secretsmanager", ministack_address).create_secret(
            Name=KEYS_SECRET, SecretString=",".join(key_entries("k1"))
        )
        patched.setenv("HEADGATE_KEYS_SECRET", KEYS_SECRET)
        yield ministack_address


@pytest.fixture(scope="package")
def stack(aws_environment: str, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The stack, whose functions are called by the tests and not by its queues."""
    code = tmp_path_factory.mktemp("code") / "none.zip"
    with zipfile.ZipFile(code, "w") as made:
        made.writestr("nothing.txt", "")
    by_hand = create_stack(aws_environment, "by-hand", code)
    by_hand.stop_sources()
    return by_hand
