"""How an API tells the use of a budget."""

from datetime import datetime

from pydantic import BaseModel, Field

from headgate.model.budget import Scope


class WindowDocument(BaseModel):
    """How one window of a limit stands."""

    limit: str
    scope: Scope
    amount: int
    used: int
    remaining: int
    reserved: int = Field(description="What of the remaining is kept for live work.")
    resets_at: datetime
    hot: int
    cold: int
    retries: int
    theirs: int | None = Field(description="The provider's own count.")
    unknown: bool
