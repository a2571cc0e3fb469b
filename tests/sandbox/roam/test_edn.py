"""EDN in the part that queries and selectors need, and what is not EDN."""

import pytest

from headgate_sandbox.roam.edn import BadForm, Text, read


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("[]", ["["]),
        (" [ :a/b, ?c ] ", ["[", ":a/b", "?c"]),
        ('"a \\"quoted\\" \\n [word]"', Text('a "quoted" \n [word]')),
        ("{:a [*] :b ...}", ["{", ":a", ["[", "*"], ":b", "..."]),
        ("[(pull ?e [:x])]", ["[", ["(", "pull", "?e", ["[", ":x"]]]),
    ],
)
def test_a_form_is_read(text: str, form: object) -> None:
    assert read(text) == form


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one form"),
        ("[] []", "one form"),
        ("[:a", "EOF"),
        ("[:a)", "Unmatched"),
        ("]", "Unmatched"),
        ('["open]', "Invalid token"),
        (r'["\x"]', "Invalid string"),
        ("[" * 51, "more than 50 deep"),
    ],
)
def test_what_is_not_edn_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadForm, match=why):
        read(text)
