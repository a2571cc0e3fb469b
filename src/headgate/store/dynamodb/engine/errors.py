"""Errors of DynamoDB and its client, as the branches of our own tree."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import ClientError as TransportError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from headgate.base.errors import SchemaBehind, StoreError, StoreUnavailable
from headgate.store.dynamodb.engine.attributes import Attributes, from_attributes

#: It was refused, so nothing was written: the same request may be sent again after a while.
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "Throttling",
        "TransactionInProgressException",
        "TransactionConflictException",
    }
)
#: It may or may not have taken effect, and neither if the answer has a status from this one on:
#: what stands before DynamoDB answers 502 or 504 without a name of the error.
FAILED = frozenset({"InternalServerError", "InternalFailure", "ServiceUnavailable"})
_FAILED_STATUS = 500
#: Of the reasons why a transaction was cancelled: it may be sent again after a while.
CONFLICTS = frozenset(
    {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError", "None"}
)
CONDITION_FAILED = "ConditionalCheckFailed"
#: What the client raises before it sends anything, if it cannot sign.
NO_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    SSOTokenLoadError,
    UnauthorizedSSOTokenError,
    TokenRetrievalError,
)
#: What the client raises if the connection fails, besides what it wraps itself.
UNREACHABLE = (BotoCoreError, TransportError, TimeoutError, OSError)


#: What is told of it.
NO_CREDENTIALS_TEXT = "there are no credentials of AWS: set AWS_PROFILE, or log in with the AWS CLI"


class ConditionFailed(Exception):
    """A condition did not hold, and nothing was written."""

    def __init__(self, found: Sequence[Attributes | None], failed: Sequence[bool]) -> None:
        """Say of each write whether its condition failed, and which item was found, if any."""
        super().__init__("a condition did not hold")
        self.found = found
        self.failed = failed


def code_of(error: ClientError) -> str:
    """DynamoDB's name of the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def has_failed(error: ClientError) -> bool:
    """Whether DynamoDB itself failed, so that the request may or may not have taken effect."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return code_of(error) in FAILED or (status >= _FAILED_STATUS and not may_be_repeated(error))


def cancellation_codes(error: ClientError) -> list[str]:
    """Why each write of a transaction was refused."""
    reasons: Sequence[Mapping[str, Any]] = error.response.get("CancellationReasons") or ()
    return [str(reason.get("Code", "None")) for reason in reasons]


def condition_failed(error: ClientError) -> ConditionFailed | None:
    """The failed conditions of a write or of a transaction; None if it is another error."""
    code = code_of(error)
    if code == "ConditionalCheckFailedException":
        return ConditionFailed([_found(error.response)], [True])
    if code == "TransactionCanceledException":
        codes = cancellation_codes(error)
        if CONDITION_FAILED in codes:
            reasons = error.response["CancellationReasons"]
            return ConditionFailed(
                [_found(reason) for reason in reasons], [each == CONDITION_FAILED for each in codes]
            )
    return None


def may_be_repeated(error: ClientError) -> bool:
    """Whether nothing was written, and the same request may succeed after a while."""
    code = code_of(error)
    if code == "TransactionCanceledException":
        codes = cancellation_codes(error)
        return bool(codes) and CONFLICTS.issuperset(codes)
    return code in THROTTLED


def translate(error: ClientError, table: str) -> StoreError:
    """Our own error for one of DynamoDB."""
    code = code_of(error)
    if code == "ResourceNotFoundException":
        return SchemaBehind(f"there is no DynamoDB table {table!r}: run `headgate migrate`")
    if may_be_repeated(error):
        reasons = sorted({*cancellation_codes(error)} - {"None"})
        told = ", ".join(reasons) or code
        return StoreUnavailable(f"DynamoDB has refused too many requests: {told}")
    if has_failed(error):
        return StoreUnavailable(f"DynamoDB failed: {code}")
    return StoreError(f"DynamoDB refused a request: {error}")


def _found(reason: Mapping[str, Any]) -> Attributes | None:
    item = reason.get("Item")
    return from_attributes(item) if item else None
