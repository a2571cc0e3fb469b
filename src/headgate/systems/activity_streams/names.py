"""The names and ids that the system uses, in one place."""

from headgate import Item

#: The name of the system.
NAME = "activity-streams"
#: The collection of streams: one item for each activity.
COLLECTION = "strava.streams"
#: The collection of activities to read in full: one item for each that is new or changed.
ACTIVITIES = "strava.activities"
#: The two syncs.
LIVE, STREAMS = "strava-live", "strava-streams"

_IN_FULL = "-details"


def activity_id(connection_id: str, strava_id: int | str) -> str:
    """Return an activity's id in Headgate, which is also the id of its stream item."""
    return f"{connection_id}-{strava_id}"


def details_id(activity_id: str) -> str:
    """Return the id of the item for reading the activity in full."""
    return f"{activity_id}{_IN_FULL}"


def strava_id(item: Item) -> str:
    """Return Strava's id of the activity of a stream item, even if it has no streams."""
    return item.id.removeprefix(f"{item.connection_id}-")


#: The path of an activity's page, and the kind of link that opens it.
ACTIVITY_PATH, ACTIVITY_LINK = "/a/", "activity"
