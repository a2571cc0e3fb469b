"""Price history: the system that takes batches of scraped prices and keeps each price once.

Choose it with `HEADGATE_SYSTEMS=price-history`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system])
"""

from headgate import System

_HERE = "headgate.systems.price_history"

system = System(
    name="price-history",
    title="Price history",
    tables=f"{_HERE}.tables:metadata",
    routes=f"{_HERE}.api:routes",
    erase=f"{_HERE}.receiving:erase",
)
