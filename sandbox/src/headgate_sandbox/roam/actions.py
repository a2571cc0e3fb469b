"""The actions of `write` as Roam's SDK sends them, and their parsing."""

from typing import Annotated, Literal

import msgspec

from headgate.base.encoding import Json

Title = Annotated[str, msgspec.Meta(min_length=1)]
ViewType = Literal["bullet", "numbered", "document"]


class BadAction(Exception):
    """The action is not valid, or cannot be carried out; the message says why."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class Location(_Part, frozen=True):
    """Where a block goes: below a page or block."""

    parent_uid: str
    order: Annotated[int, msgspec.Meta(ge=0)] | Literal["first", "last"]


class _BlockLook(_Part, frozen=True):
    """How a block is shown; a field that is left out stays as it is."""

    open: bool | None = None
    heading: Literal[0, 1, 2, 3] | None = None
    text_align: Literal["left", "center", "right", "justify"] | None = None
    children_view_type: ViewType | None = None


class BlockToMake(_BlockLook, frozen=True, kw_only=True):
    """A block to be made; without a uid, it gets one."""

    string: str
    uid: Title | None = None


class BlockChange(_BlockLook, frozen=True, kw_only=True):
    """What a block is set to."""

    uid: str
    string: str | None = None


class PageToMake(_Part, frozen=True):
    """A page to be made; without a uid, it gets one."""

    title: Title
    uid: Title | None = None
    children_view_type: ViewType | None = None


class PageChange(_Part, frozen=True):
    """What a page is set to."""

    uid: str
    title: Title | None = None
    children_view_type: ViewType | None = None


class UidOnly(_Part, frozen=True):
    """The page or block that an action is about."""

    uid: str


class _Action(_Part, frozen=True, tag_field="action"):
    pass


class CreateBlock(_Action, frozen=True, tag="create-block"):
    """Make a block."""

    location: Location
    block: BlockToMake


class MoveBlock(_Action, frozen=True, tag="move-block"):
    """Move a block with everything below it."""

    location: Location
    block: UidOnly


class UpdateBlock(_Action, frozen=True, tag="update-block"):
    """Change a block."""

    block: BlockChange


class DeleteBlock(_Action, frozen=True, tag="delete-block"):
    """Delete a block with everything below it."""

    block: UidOnly


class CreatePage(_Action, frozen=True, tag="create-page"):
    """Make a page."""

    page: PageToMake


class UpdatePage(_Action, frozen=True, tag="update-page"):
    """Rename a page, or change how it is shown."""

    page: PageChange


class DeletePage(_Action, frozen=True, tag="delete-page"):
    """Delete a page with its blocks."""

    page: UidOnly


Action = CreateBlock | MoveBlock | UpdateBlock | DeleteBlock | CreatePage | UpdatePage | DeletePage

_NAMES = (
    "create-block",
    "move-block",
    "update-block",
    "delete-block",
    "create-page",
    "update-page",
    "delete-page",
)


def parse_action(body: Json) -> Action:
    """Parse an action; raises BadAction."""
    name = body.get("action") if isinstance(body, dict) else None
    if name not in _NAMES:
        shown = name if isinstance(name, str) else msgspec.json.encode(name).decode()
        raise BadAction(f"Invalid action {shown}, expected one of {', '.join(_NAMES)}")
    try:
        # mypy takes a union for no type.
        return msgspec.convert(body, Action)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        # msgspec quotes values as JSON does not.
        raise BadAction(f"{name}: {error}".replace("'", "").replace("`", "")) from None
