"""What things are called, in one place."""

from headgate import Item

#: The system.
NAME = "activity-streams"
#: Streams: one item for each activity.
COLLECTION = "strava.streams"
#: Activities that are read in full, with their laps: one item for each that is new or changed.
ACTIVITIES = "strava.activities"
#: The two syncs.
LIVE, STREAMS = "strava-live", "strava-streams"

_IN_FULL = "-details"


def activity_id(connection_id: str, strava_id: int | str) -> str:
    """An activity's id here, which is its stream item's id."""
    return f"{connection_id}-{strava_id}"


def details_id(activity_id: str) -> str:
    """The id of the item that stands for reading the activity in full."""
    return f"{activity_id}{_IN_FULL}"


def strava_id(item: Item) -> str:
    """What Strava calls the activity of a stream item, also where it has no streams to ask for."""
    return item.id.removeprefix(f"{item.connection_id}-")


#: Where an activity's page is, and the kind of link that opens it.
ACTIVITY_PATH, ACTIVITY_LINK = "/a/", "activity"
