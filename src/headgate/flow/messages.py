"""Building of a message to enqueue: everything about it is checked before anything is written."""

from collections.abc import Sequence

from headgate.base.encoding import Json, hash_text, storable_json
from headgate.base.errors import InvalidInput, Malformed
from headgate.base.ids import Ids
from headgate.flow.targets import Targets
from headgate.model.job import Job
from headgate.model.record import ChunkMessage
from headgate.ports.outbox import NewMessage

PAYLOAD_BYTES_MAX = 1024 * 1024
#: The longest key, and the longest id of a run or of a user.
KEY_LENGTH_MAX = 200
CHUNK_MESSAGES_MAX = 100


def new_message(
    targets: Targets,
    ids: Ids,
    topic: str,
    payload: Json,
    *,
    key: str | None,
    run_id: str | None,
    user_id: str | None,
    to: Sequence[str] | None,
) -> NewMessage:
    """A message about `topic` to the targets `to`; raises InvalidInput if it cannot be sent."""
    names = targets.of_message(topic, to)
    try:
        text = storable_json(payload, bytes_max=PAYLOAD_BYTES_MAX)
    except ValueError as error:
        raise InvalidInput("payload", str(error)) from None
    for field, given in (("key", key), ("run_id", run_id), ("user_id", user_id)):
        if given is not None and not _is_plain(given):
            raise InvalidInput(field, f"must be 1 to {KEY_LENGTH_MAX} printable ASCII characters")
    message_id = ids.new("message")
    return NewMessage(
        id=message_id,
        topic=topic,
        key=message_id if key is None else key,
        payload=text,
        payload_hash=hash_text(text),
        run_id=run_id,
        user_id=user_id,
        targets=names,
    )


def chunk_messages(
    targets: Targets, ids: Ids, job: Job, messages: Sequence[ChunkMessage]
) -> Sequence[NewMessage]:
    """The messages of the next chunk of `job`; raises Malformed if one cannot be sent.

    Their keys stay the same if the chunk has to be read again.
    """
    if len(messages) > CHUNK_MESSAGES_MAX:
        raise Malformed(f"messages: there are {len(messages):,}; use at most {CHUNK_MESSAGES_MAX}")
    found = []
    for place, each in enumerate(messages):
        if not isinstance(each, ChunkMessage):
            raise Malformed(
                f"messages[{place}]: is a {type(each).__name__}; write a headgate.ChunkMessage"
            )
        try:
            new = new_message(
                targets,
                ids,
                each.topic,
                each.payload,
                key=f"{job.id}:{job.steps}:{place}" if each.key is None else each.key,
                run_id=job.id,
                user_id=job.user_id,
                to=each.targets,
            )
        except InvalidInput as error:
            raise Malformed(f"messages[{place}].{error}") from None
        found.append(new)
    return found


def _is_plain(text: object) -> bool:
    """Whether it is a text that can go into a header and into every database."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= KEY_LENGTH_MAX
        and text.isascii()
        and text.isprintable()
    )
