"""Fixtures of other folders that a system's own tests ask for: the browser, and each database."""

from tests.browser.conftest import browser as browser
from tests.browser.conftest import file as file
from tests.browser.conftest import open_page as open_page
from tests.browser.conftest import watched as watched
