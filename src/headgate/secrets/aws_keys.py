"""Encryption keys and settings from AWS: a secret, or a ciphertext that KMS decrypts.

Each is fetched once by a process and never written anywhere. The requests block: they are made
while the application is put together, before anything else runs.
"""

from base64 import b64decode
from functools import cache
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError
from botocore.session import get_session

from headgate.base.errors import InvalidInput
from headgate.base.secret import Secret

_CONFIG = Config(
    connect_timeout=3.0,
    read_timeout=5.0,
    retries={"mode": "standard", "total_max_attempts": 3},
)
#: What to do about errors whose names do not say it.
_HINTS = {
    "AccessDeniedException": "the role or user needs secretsmanager:GetSecretValue, or kms:Decrypt",
    "ResourceNotFoundException": "there is no such secret in this account and region",
}


@cache
def read_secret(name: str, *, field: str = "keys_secret") -> Secret:
    """Return the text of the secret with this name or ARN.

    InvalidInput if it cannot be read, for the setting `field` that names it.
    """
    try:
        client: Any = get_session().create_client("secretsmanager", config=_CONFIG)
        text = client.get_secret_value(SecretId=name).get("SecretString")
    except (BotoCoreError, ClientError) as error:
        raise InvalidInput(field, f"cannot be read: {_code(error)}") from None
    if not text:
        raise InvalidInput(field, "has no text; store it as a text, not as bytes")
    return Secret(text)


@cache
def decrypt(ciphertext: str) -> Secret:
    """Return the text that KMS encrypted, given in base64; InvalidInput if that fails."""
    try:
        blob = b64decode(ciphertext, validate=True)
    except ValueError:
        raise InvalidInput("keys_kms", "is not base64") from None
    try:
        client: Any = get_session().create_client("kms", config=_CONFIG)
        plain: bytes = client.decrypt(CiphertextBlob=blob)["Plaintext"]
        return Secret(plain.decode())
    except (BotoCoreError, ClientError) as error:
        raise InvalidInput("keys_kms", f"cannot be decrypted: {_code(error)}") from None
    except UnicodeDecodeError:
        raise InvalidInput("keys_kms", "is not the ciphertext of a text") from None


def _code(error: Exception) -> str:
    """What is wrong, without what was sent or answered."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", "unknown"))
        return f"{code}; {_HINTS[code]}" if code in _HINTS else code
    if isinstance(error, NoCredentialsError):
        return "there are no credentials of AWS; set AWS_PROFILE, or log in with the AWS CLI"
    if isinstance(error, NoRegionError):
        return "no region is set; set AWS_DEFAULT_REGION"
    return type(error).__name__
