"""A reading list: what somebody saved to read later, kept here, and what they have read of it.

A whole system in one folder, as others write them; `docs/how-to/add-a-system.md` goes through it.
"""

from headgate import Command, System

# Addresses, not imports: what needs a web framework or a driver is loaded by whoever uses it. The
# folder may be installed under any name, so it never says its own.
system = System(
    name="reading-list",
    title="Reading list",
    settings=f"{__name__}.settings:ReadingListSettings",
    syncs=f"{__name__}.syncs:syncs",
    tables=f"{__name__}.tables:metadata",
    routes=f"{__name__}.api:routes",
    pages=f"{__name__}.pages:pages",
    commands=(
        Command(
            "reading-list",
            f"{__name__}.commands:reading_list",
            "List what a user saved to read later, and what of it they have read.",
        ),
    ),
    metrics=f"{__name__}.metrics:metrics",
    erase=f"{__name__}.articles:erase",
    export=f"{__name__}.articles:export",
)
