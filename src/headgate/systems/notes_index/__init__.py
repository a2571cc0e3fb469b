"""Notes index: keeps a Roam graph searchable by meaning, in a vector index on this machine.

A run reads the pages that changed, splits and embeds them, and replaces them in the index; runs are
started, followed, cancelled and continued by an API of their own. Choose the system with
`HEADGATE_SYSTEMS=notes-index`, or use it in an application of your own:

    app = headgate.App("sqlite:///headgate.db", systems=[system])
    notes = NotesIndex(app)  # of headgate.systems.notes_index.service
"""

from headgate import Command, System

_HERE = "headgate.systems.notes_index"

system = System(
    name="notes-index",
    title="Notes index",
    settings=f"{_HERE}.settings:NotesIndexSettings",
    syncs=f"{_HERE}.syncs:syncs",
    routes=f"{_HERE}.api:routes",
    commands=(
        Command(
            "notes",
            f"{_HERE}.commands:commands",
            "Index a Roam graph, and search it by meaning.",
        ),
    ),
    erase=f"{_HERE}.service:erase",
    export=f"{_HERE}.service:export",
)
