"""The API document of one window of a budget."""

from datetime import datetime

from pydantic import BaseModel, Field

from headgate.model.budget import Scope


class WindowDocument(BaseModel):
    """The use of one window of a limit."""

    limit: str
    scope: Scope
    amount: int
    used: int
    remaining: int
    reserved: int = Field(description="The part of `remaining` that is reserved for live work.")
    resets_at: datetime
    hot: int
    cold: int
    retries: int
    theirs: int | None = Field(description="The provider's own count.")
    unknown: bool
