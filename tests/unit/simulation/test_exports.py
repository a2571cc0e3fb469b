"""The public surface of the package."""

import headgate.simulation


def test_the_package_exports_are_sorted_and_exist() -> None:
    names = headgate.simulation.__all__

    assert names == sorted(names)
    assert all(hasattr(headgate.simulation, name) for name in names)
