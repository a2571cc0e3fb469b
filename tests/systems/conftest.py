"""What the systems' own tests ask for: the browser, and a database where both do the same."""

import shutil
from pathlib import Path

import pytest

from tests.browser.conftest import browser as browser
from tests.browser.conftest import file as file
from tests.browser.conftest import open_page as open_page
from tests.browser.conftest import watched as watched


@pytest.fixture
def sqlite_address(store_file: Path, tmp_path: Path) -> str:
    """A migrated SQLite file of the test's own, for what is the same on every database."""
    return f"sqlite:///{shutil.copyfile(store_file, tmp_path / 'own.db')}"
