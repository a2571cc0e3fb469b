"""What tests of the vector index need before the first of them is measured."""

import pytest

from headgate.connectors.vectors import embedder


@pytest.fixture(scope="session")
def imported() -> None:
    """LanceDB and WordLlama: to import them takes a second of CPU time, once for a process."""
    import lancedb  # noqa: F401 (only who needs it pays)

    embedder._load()
