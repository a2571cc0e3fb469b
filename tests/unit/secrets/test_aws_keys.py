"""The encryption keys from Secrets Manager and from KMS: fetched once, and never shown."""

from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from botocore.session import get_session

from headgate import settings
from headgate.aws.container import SETTINGS_SECRET, app_from_environment
from headgate.base.errors import InvalidInput
from headgate.secrets import aws_keys
from headgate.secrets.keys import DEMO_KEY
from tests.emulators import CREDENTIALS

#: Not the one of the stacks that other tests create in the same emulator.
SECRET = "headgate/keys-of-this-test"
KEYS = "new:" + b64encode(Random(7).randbytes(32)).decode()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, ministack_address: str) -> Iterator[None]:
    """The environment of a function, whose process has fetched nothing yet."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": ministack_address}.items():
        monkeypatch.setenv(name, value)
    for fetched in (aws_keys.read_secret, aws_keys.decrypt):
        fetched.cache_clear()
    yield


def client(service: str) -> Any:
    return get_session().create_client(service)


def test_a_secret_is_found_by_its_name_and_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = client("secretsmanager")
    made = secrets.create_secret(Name=SECRET, SecretString=KEYS)
    monkeypatch.setenv("HEADGATE_KEYS_SECRET", SECRET)
    assert settings.load().key_ring().newest == "new"
    secrets.delete_secret(SecretId=made["ARN"], ForceDeleteWithoutRecovery=True)
    assert settings.load().key_ring().newest == "new"
    assert KEYS not in repr(aws_keys.read_secret(SECRET))
    # And the keys come from one place.
    monkeypatch.setenv("HEADGATE_KEYS", DEMO_KEY)
    with pytest.raises(InvalidInput, match="keys and keys_secret are both set"):
        settings.load().key_ring()


def test_kms_decrypts_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    kms = client("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    blob = kms.encrypt(KeyId=key, Plaintext=KEYS.encode())["CiphertextBlob"]
    monkeypatch.setenv("HEADGATE_KEYS_KMS", b64encode(blob).decode())
    assert settings.load().key_ring().newest == "new"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "KEYS_SECRET",
            "not/there",
            "keys_secret: cannot be read: ResourceNotFoundException; there is no such secret in",
        ),
        ("KEYS_KMS", "%", "keys_kms: is not base64"),
        ("KEYS_KMS", b64encode(b"nonsense").decode(), "keys_kms: cannot be decrypted"),
    ],
)
def test_what_cannot_be_fetched_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"HEADGATE_{name}", value)
    with pytest.raises(InvalidInput, match=told) as raised:
        settings.load().key_ring()
    assert value not in str(raised.value)


def test_the_setting_is_named_whose_secret_has_something_else_than_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"{SECRET}-wrong"
    client("secretsmanager").create_secret(Name=name, SecretString='{"HEADGATE_KEYS": "x"}')
    monkeypatch.setenv("HEADGATE_KEYS_SECRET", name)
    with pytest.raises(InvalidInput, match=r"^keys_secret: entry 1 is not id:base64"):
        settings.load().key_ring()
    monkeypatch.setenv(SETTINGS_SECRET, "not/there")
    with pytest.raises(InvalidInput, match=f"^{SETTINGS_SECRET}: cannot be read"):
        app_from_environment()


def test_missing_credentials_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HEADGATE_KEYS_SECRET", "some/secret")
    with pytest.raises(InvalidInput, match="no credentials of AWS; set AWS_PROFILE"):
        settings.load().key_ring()


@pytest.mark.parametrize("name", ["KEYS_SECRET", "KEYS_KMS"])
def test_a_region_that_is_not_set_is_told(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(f"HEADGATE_{name}", "c2VjcmV0")
    with pytest.raises(InvalidInput, match="no region is set; set AWS_DEFAULT_REGION"):
        settings.load().key_ring()


def test_both_queues_are_named_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.load().queues() == {}
    monkeypatch.setenv("HEADGATE_AWS_HOT_QUEUE", "https://sqs.test/1/hot")
    with pytest.raises(InvalidInput, match="aws_cold_queue: is not set"):
        settings.load().queues()
