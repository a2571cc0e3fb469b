"""One page of a list."""

import pytest

from headgate.toolkit.paging import page_of


@pytest.mark.parametrize(
    ("found", "shown", "cursor"), [("", "", None), ("ab", "ab", None), ("abc", "ab", "B")]
)
def test_a_page_says_where_to_go_on_only_where_there_is_more(
    found: str, shown: str, cursor: str | None
) -> None:
    page = page_of(found, 2, cursor=str.upper)

    assert ("".join(page.data), page.next_cursor) == (shown, cursor)
