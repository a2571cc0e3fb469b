"""This module defines the actions of `write` as Roam's API takes them, and parses them."""

from typing import Literal

import msgspec

from headgate.base.encoding import Json

#: A uid, or in a batch a negative number that stands for one.
Uid = str | int
ViewType = Literal["bullet", "numbered", "document"]
ACTIONS_MAX = 1_000


class BadAction(Exception):
    """The action is not valid, or cannot be carried out; the message says why."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class DailyNote(_Part, frozen=True):
    """A daily note by its day, `MM-DD-YYYY`."""

    daily_note_page: str


class Location(_Part, frozen=True):
    """Where a block goes: below a page or block, or on a page that is made if it is missing."""

    order: int | str
    parent_uid: Uid | None = None
    page_title: str | DailyNote | None = None


class BlockFields(_Part, frozen=True):
    """What a block is set to; a field that is left out stays as it is."""

    uid: Uid | None = None
    string: str | None = None
    open: bool | None = None
    heading: Literal[0, 1, 2, 3] | None = None
    text_align: Literal["left", "center", "right", "justify"] | None = None
    children_view_type: ViewType | None = None


class PageFields(_Part, frozen=True):
    """What a page is set to."""

    uid: Uid | None = None
    title: str | None = None
    children_view_type: ViewType | None = None


class UidOnly(_Part, frozen=True):
    """The page or block that an action is about."""

    uid: Uid


class _Action(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="action",
    rename="kebab",
):
    pass


class CreateBlock(_Action, frozen=True, tag="create-block"):
    """Make a block."""

    location: Location
    block: BlockFields


class MoveBlock(_Action, frozen=True, tag="move-block"):
    """Move a block with everything below it."""

    location: Location
    block: UidOnly


class UpdateBlock(_Action, frozen=True, tag="update-block"):
    """Change a block."""

    block: BlockFields


class DeleteBlock(_Action, frozen=True, tag="delete-block"):
    """Delete a block with everything below it."""

    block: UidOnly


class CreatePage(_Action, frozen=True, tag="create-page"):
    """Make a page."""

    page: PageFields


class UpdatePage(_Action, frozen=True, tag="update-page"):
    """Rename a page, or change how it is shown."""

    page: PageFields


class DeletePage(_Action, frozen=True, tag="delete-page"):
    """Delete a page with its blocks."""

    page: UidOnly


Action = CreateBlock | MoveBlock | UpdateBlock | DeleteBlock | CreatePage | UpdatePage | DeletePage
BATCH = "batch-actions"
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
    """Parse one action; raises BadAction."""
    if not isinstance(body, dict):
        raise BadAction("An action is a map")
    name = body.get("action")
    if name not in _NAMES:
        shown = name if isinstance(name, str) else msgspec.json.encode(name).decode()
        raise BadAction(f"Invalid action {shown}, expected one of {', '.join(_NAMES)}, {BATCH}")
    try:
        action: Action = msgspec.convert(body, Action)
    except msgspec.ValidationError as error:
        # msgspec quotes values as JSON does not.
        raise BadAction(f"{name}: {error}".replace("'", "").replace("`", "")) from None
    _check(name, action)
    return action


def parse_batch(body: dict[str, Json]) -> list[Action]:
    """Parse the actions of a batch, all of them before any is carried out."""
    actions = body.get("actions")
    if not isinstance(actions, list) or not actions:
        raise BadAction(f"{BATCH}: actions is a list of one action or more")
    if len(actions) > ACTIONS_MAX:
        raise BadAction(f"{BATCH}: more than {ACTIONS_MAX} actions")
    return [parse_action(each) for each in actions]


def _check(name: str, action: Action) -> None:
    """Refuse what the types alone cannot tell."""
    match action:
        case CreateBlock(block=BlockFields(string=None)):
            raise BadAction(f"{name}: block.string is missing")
        case UpdateBlock(block=BlockFields(uid=None)):
            raise BadAction(f"{name}: block.uid is missing")
        case CreatePage(page=PageFields(title=None)) | CreatePage(page=PageFields(title="")):
            raise BadAction(f"{name}: page.title is missing")
        case UpdatePage(page=PageFields(uid=None)):
            raise BadAction(f"{name}: page.uid is missing")
    if isinstance(action, CreateBlock | MoveBlock):
        there = action.location
        if (there.parent_uid is None) == (there.page_title is None):
            raise BadAction(f"{name}: location has exactly one of parent-uid and page-title")
        if there.order not in ("first", "last") and not _is_place(there.order):
            raise BadAction(f"{name}: location.order is a number, first or last")


def _is_place(order: int | str) -> bool:
    return isinstance(order, int) and order >= 0
