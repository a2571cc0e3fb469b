"""Foreign text, made safe to write down."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.base.redact import MASK, TEXT_LENGTH_MAX, describe_error, is_secret_name, redact

CANARY = "c4n4ry-S3CRET"

#: How secrets turn up in error pages, headers, URLs and the texts of exceptions.
SHAPES: dict[str, Callable[[str], str]] = {
    "bearer header": lambda secret: f"Authorization: Bearer {secret}",
    "bearer alone": lambda secret: f"401 for bearer {secret}, try again",
    "basic header": lambda secret: f"Authorization: Basic {secret}",
    "bare header": lambda secret: f"authorization: {secret}",
    "cookie": lambda secret: f"Cookie: {secret}",
    "query": lambda secret: f"GET /me?access_token={secret}&page=2 failed",
    "form": lambda secret: f"grant_type=refresh&refresh_token={secret}",
    "client secret": lambda secret: f"client_id=7&client_secret={secret}",
    "json": lambda secret: f'{{"refresh_token": "{secret}", "expires_in": 3600}}',
    "compact json": lambda secret: f'{{"access_token":"{secret}"}}',
    "camel case": lambda secret: f'{{"accessToken":"{secret}"}}',
    "python": lambda secret: f"{{'id_token': '{secret}'}}",
    "python bytes": lambda secret: f"{{'token': b'{secret}'}}",
    "assignment": lambda secret: f"password = {secret}",
    "upper case": lambda secret: f"API_KEY={secret}",
    "api key header": lambda secret: f"X-Api-Key: {secret}",
    "api key in one word": lambda secret: f"apikey={secret}",
    "longer name": lambda secret: f"strava_oauth_token={secret}",
    "url with user": lambda secret: f"cannot reach postgresql://user:{secret}@db:5432/x",
    "url with token": lambda secret: f"cannot reach https://{secret}@example.com/x",
    "plural": lambda secret: f"credentials: {secret}",
    "unfinished quote": lambda secret: f'{{"secret": "{secret}',
    "token header": lambda secret: f"Authorization: Token {secret}",
    "digest header": lambda secret: f"Authorization: Digest username=a, response={secret}",
    "bearer with a bar": lambda secret: f"Bearer 17|{secret}",
    "one cookie of several": lambda secret: f"Cookie: theme=dark; session={secret}",
    "set-cookie": lambda secret: f"Set-Cookie: sid={secret}; Path=/; HttpOnly",
    "secret key": lambda secret: f"secret_key={secret}",
    "aws secret key": lambda secret: f"AWS_SECRET_ACCESS_KEY={secret}",
    "aws signature": lambda secret: f"X-Amz-Signature={secret}",
    "private key": lambda secret: f"private_key={secret}",
    "passphrase": lambda secret: f"passphrase={secret}",
    "json in json": lambda secret: f'{{\\"access_token\\": \\"{secret}\\"}}',
    "quote inside quotes": lambda secret: f'"password": "a\\"{secret}"',
    "url with two at signs": lambda secret: f"https://user:p@{secret}@host/",
    "query in a query": lambda secret: f"redirect=%3Faccess_token%3D{secret}",
    "ruby": lambda secret: f"token => {secret}",
    "pairs": lambda secret: f"[('access_token', '{secret}')]",
    "name after a name": lambda secret: f"invalid token: password: {secret}",
    "name in the next line": lambda secret: f"no token,\nX-Api-Key: {secret}",
    "json after a name": lambda secret: f'no token: {{"refresh_token": "{secret}"}}',
    "scheme before a name": lambda secret: f"no such Bearer token: {secret}",
    "scheme after a name": lambda secret: f"token: Bearer {secret}",
    "xml": lambda secret: f"<access_token>{secret}</access_token>",
}

#: What tokens are made of: base64, JWT and the like.
_letters = st.text("ABCXYZabcxyz0189_.~+=-", max_size=30)
secrets = st.builds(lambda before, after: f"{before}{CANARY}{after}", _letters, _letters)
around = st.text("{}[]()<>! \t\n\r\x1b\x00äöü", max_size=20)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_is_masked_in_every_shape(shape: str) -> None:
    said = redact(SHAPES[shape](CANARY))

    assert CANARY not in said
    assert MASK in said


@given(st.sampled_from(sorted(SHAPES)), secrets, around, around)
def test_a_canary_never_survives(shape: str, secret: str, before: str, after: str) -> None:
    said = redact(f"{before} {SHAPES[shape](secret)} {after}")

    assert CANARY not in said


@given(st.lists(st.sampled_from(sorted(SHAPES)), min_size=2, max_size=6))
def test_one_secret_after_another_is_masked(shapes: list[str]) -> None:
    said = redact("\n".join(SHAPES[shape](CANARY) for shape in shapes))

    assert CANARY not in said


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 3000))
def test_a_canary_does_not_survive_being_cut(shape: str, offset: int) -> None:
    # Where the text is cut before it is scanned, a secret may lose its end.
    said = redact("x" * offset + " " + SHAPES[shape](CANARY))

    assert CANARY not in said


@pytest.mark.parametrize(
    ("control", "shown"),
    [
        ("\n", "\\x0a"),
        ("\r", "\\x0d"),
        ("\x1b", "\\x1b"),
        ("\x00", "\\x00"),
        ("\x7f", "\\x7f"),
        ("\ud800", "\\xd800"),
    ],
)
def test_a_control_character_is_shown_and_has_no_effect(control: str, shown: str) -> None:
    assert redact(f"a{control}b") == f"a{shown}b"


@given(st.text(st.characters(exclude_categories=[]), max_size=3000), st.integers(1, 1000))
def test_what_is_left_is_short_and_has_no_control_character_and_can_be_encoded(
    text: str, length_max: int
) -> None:
    said = redact(text, length_max=length_max)

    assert len(said) <= length_max
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", said)
    said.encode()


@given(st.text("abc äöü.,", max_size=TEXT_LENGTH_MAX))
def test_harmless_text_is_left_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_a_text_that_was_cut_says_so() -> None:
    said = redact("x" * 501)

    assert len(said) == TEXT_LENGTH_MAX
    assert said.endswith("x…")


def test_what_surrounds_a_secret_can_still_be_read() -> None:
    assert redact("GET /me?access_token=abc&page=2 failed") == (
        f"GET /me?access_token={MASK}&page=2 failed"
    )
    assert redact("postgresql://u:p@db/x refused") == f"postgresql://{MASK}@db/x refused"


@pytest.mark.parametrize(
    "text", ["https://example.com/a@b", "mail me@example.com", "the token expired", "3 secrets"]
)
def test_what_only_looks_like_a_secret_is_left(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["a", "a.-", "token", "password=", "token, ", "://", "'", "\\"])
@pytest.mark.timeout(30)
def test_a_long_text_is_scanned_once_not_from_every_beginning(text: str) -> None:
    # A pattern that tries every beginning would take hours for this, and run into the timeout.
    redact(text * 400_000, length_max=100_000)


# Exceptions.


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no such page"), b"ValueError: no such page"),
        # Half a surrogate pair can be encoded.
        (ValueError("\ud800"), b"ValueError: \\xd800"),
        (TimeoutError(), b"TimeoutError"),
    ],
)
def test_an_exception_is_told_by_its_class_and_text(error: Exception, told: bytes) -> None:
    assert describe_error(error).encode() == told


@given(st.sampled_from(sorted(SHAPES)), secrets)
def test_an_exception_does_not_give_a_secret_away(shape: str, secret: str) -> None:
    said = describe_error(RuntimeError(SHAPES[shape](secret)))

    assert CANARY not in said
    assert "\n" not in said


# Names.


@pytest.mark.parametrize(
    "name",
    [
        *("access_token", "accessToken", "api-key", "api_key", "Authorization"),
        *("client_secret", "cookies", "credential", "id_token", "password", "passwd"),
        *("refresh_token", "session token", "token", "X-Api-Key", "Set-Cookie"),
        *("Proxy-Authorization", "strava_access_token", "db_password", "webhook_secret"),
        *("secret_key", "oauth_token"),
    ],
)
def test_a_field_that_holds_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["", "job", "user_id", "key", "tokenizer", "secretary", "step"])
def test_other_fields_are_not(name: str) -> None:
    assert not is_secret_name(name)
