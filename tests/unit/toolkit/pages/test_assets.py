"""Static files: named by their content, and never by a path."""

from pathlib import Path

import pytest

from headgate import InvalidInput
from headgate.toolkit.pages.assets import Assets
from tests.unit.toolkit.requests import request


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A system's static files."""
    (tmp_path / "vendor").mkdir()
    (tmp_path / "books.css").write_text("p { color: red }", encoding="utf-8")
    (tmp_path / "vendor" / "chart.js").write_text("draw()", encoding="utf-8")
    (tmp_path / "secrets.txt").write_text("hush", encoding="utf-8")
    return tmp_path


def version(path: str) -> str:
    return path.split("/")[2]


async def test_a_file_is_served_as_what_it_is_and_kept_long(folder: Path) -> None:
    assets = Assets()
    assets.add(folder)

    path = assets.path("books.css")
    served = await assets.serve(request(version=version(path), name="books.css"))

    assert path == f"/static/{version(path)}/books.css"
    assert (served.status_code, served.body) == (200, b"p { color: red }")
    assert served.headers["content-type"].startswith("text/css")
    assert "immutable" in served.headers["cache-control"]
    assert served.headers["x-content-type-options"] == "nosniff"


async def test_of_another_version_it_is_served_and_not_kept(folder: Path) -> None:
    assets = Assets()
    assets.add(folder)

    served = await assets.serve(request(version="0", name="chart.js"))

    assert (served.body, served.headers["cache-control"]) == (b"draw()", "no-cache")


@pytest.mark.parametrize("name", ["secrets.txt", "../books.css", "nothing.css", ""])
async def test_nothing_else_is_there(folder: Path, name: str) -> None:
    assets = Assets()
    assets.add(folder)

    assert (await assets.serve(request(version="0", name=name))).status_code == 404


def test_another_content_is_another_path(folder: Path) -> None:
    before, after = Assets(), Assets()
    before.add(folder)
    (folder / "books.css").write_text("p { color: blue }", encoding="utf-8")
    after.add(folder)

    assert before.path("books.css") != after.path("books.css")
    assert before.path("chart.js") == after.path("chart.js")


def test_two_systems_may_share_a_file_but_not_a_name(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assets = Assets()
    assets.add(folder / "vendor")
    (other / "chart.js").write_text("draw()", encoding="utf-8")
    assets.add(other)

    (other / "chart.js").write_text("paint()", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"two files are called chart\.js"):
        assets.add(other)


def test_what_all_pages_share_is_there_from_the_start() -> None:
    assert Assets().path("pages.css").endswith("/pages.css")
