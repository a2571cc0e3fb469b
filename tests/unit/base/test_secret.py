"""A secret is read in one way only, and written in none."""

import copy
import json
import pickle  # noqa: S403

import msgspec
import pytest

from headgate.base.log import mask_secrets
from headgate.base.secret import Secret

CANARY = "c4nary-0f-the-v4ult"


class Holder(msgspec.Struct):
    token: Secret


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda secret: f"{secret}",
        lambda secret: f"{secret!r:>40}",
        lambda secret: "{:s}".format(secret),  # noqa: UP032 (the old way must be safe too)
        lambda secret: "%s" % secret,  # noqa: UP031 (and the oldest)
        lambda secret: repr([secret, {"a": secret}]),
        lambda secret: repr(Holder(secret)),
        lambda secret: str(mask_secrets(None, "", {"event": secret, "more": {"x": [secret]}})),
    ],
)
@pytest.mark.security(15)
def test_whatever_shows_it_shows_a_mask(show: object) -> None:
    assert callable(show)
    shown = show(Secret(CANARY))

    assert CANARY not in shown
    assert "[redacted]" in shown


@pytest.mark.security(15)
def test_it_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Secret(CANARY))


def test_it_is_not_written_as_json() -> None:
    for encode in (json.dumps, msgspec.json.encode, msgspec.to_builtins):
        with pytest.raises(TypeError):
            encode(Secret(CANARY))
        with pytest.raises(TypeError):
            encode({"token": Secret(CANARY)})


def test_it_has_no_dict_to_look_into_and_no_hash() -> None:
    for look in (vars, hash):
        with pytest.raises(TypeError):
            look(Secret(CANARY))
    assert Secret(CANARY).reveal() == CANARY


def test_it_equals_one_of_the_same_text_and_nothing_else() -> None:
    assert Secret("naïve ☕") == Secret("naïve ☕")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_a_copy_is_the_same_secret() -> None:
    secret = Secret("a")

    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret


def test_an_empty_one_is_false() -> None:
    assert not Secret("")
    assert Secret("a")


def test_only_a_text_can_be_one_and_the_error_does_not_quote_it() -> None:
    with pytest.raises(TypeError, match="not a bytes") as raised:
        Secret(CANARY.encode())  # type: ignore[arg-type]

    assert CANARY not in str(raised.value)
