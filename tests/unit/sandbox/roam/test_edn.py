"""EDN in the part that queries and selectors need, and what is not EDN."""

import pytest

from headgate.sandbox.roam.edn import BadEdn, Keyword, Symbol, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", []),
        (" [ :a/b, ?c ] ; and that is all", [Keyword("a/b"), Symbol("?c")]),
        ('"a \\"quoted\\" \\n [word]"', 'a "quoted" \n [word]'),
        ("[1 -2 true false nil]", [1, -2, True, False, None]),
        ("{:a [*] :b ...}", {Keyword("a"): [Symbol("*")], Keyword("b"): Symbol("...")}),
        ("[(pull ?e [:x])]", [(Symbol("pull"), Symbol("?e"), [Keyword("x")])]),
    ],
)
def test_a_form_is_read(text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one form"),
        ("[] []", "one form"),
        ("[:a", "EOF"),
        ("[:a)", "Unmatched"),
        ("]", "Unmatched"),
        ("{:a}", "pairs"),
        ("{[] 1}", "pairs"),
        ('["open]', "Invalid token"),
        ("[: ]", "Invalid token"),
        ("[" * 51, "more than 50 deep"),
    ],
)
def test_what_is_not_edn_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadEdn, match=why):
        read(text)
