"""The settings of the notes index: Roam, the folder of the index, and the sizes of its parts."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from headgate.connectors.roam import PULL_MAX, RoamSettings
from headgate.connectors.vectors import CHARACTERS, CHARACTERS_MAX


class ClearBy(StrEnum):
    """Whose API key may delete what an index holds."""

    ADMIN = "admin"
    #: The user whose index it is, too.
    USER = "user"


class NotesIndexSettings(RoamSettings):
    """Roam's settings, and those of the index."""

    #: The folder of the vector index; it is made where it does not exist.
    notes_folder: Path = Path("notes-index")
    #: How many pages are read by one request, and stored together.
    notes_batch: int = Field(default=50, ge=1, le=PULL_MAX)
    #: How many characters a piece of a page has at most.
    notes_piece_characters: int = Field(default=CHARACTERS, ge=50, le=CHARACTERS_MAX)
    notes_clear_by: ClearBy = ClearBy.ADMIN
