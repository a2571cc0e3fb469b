"""Price history: scrapes the prices of a shop, delivers them to backends, and receives them.

A scraper and a backend are two installations of this system; each needs only its own settings.
Choose it with `HEADGATE_SYSTEMS=price-history`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system])
"""

from headgate import Command, System

_HERE = "headgate.systems.price_history"

system = System(
    name="price-history",
    title="Price history",
    settings=f"{_HERE}.settings:PriceHistorySettings",
    syncs=f"{_HERE}.syncs:syncs",
    topics=f"{_HERE}.sending:topics",
    targets=f"{_HERE}.sending:targets",
    tables=f"{_HERE}.tables:metadata",
    routes=f"{_HERE}.api:routes",
    commands=(
        Command(
            "price-history",
            f"{_HERE}.commands:commands",
            "Scrape a shop's prices, and deliver them to backends.",
        ),
    ),
    erase=f"{_HERE}.receiving:erase",
    export=f"{_HERE}.receiving:export",
)
