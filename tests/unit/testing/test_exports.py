"""The public surface of the package."""

import headgate.testing


def test_the_package_exports_are_sorted_and_exist() -> None:
    names = headgate.testing.__all__

    assert names == sorted(names)
    assert all(hasattr(headgate.testing, name) for name in names)
