"""Building of a message to enqueue: everything about it is checked before anything is written."""

from collections.abc import Sequence

from headgate.base.encoding import Json, hash_text, storable_json
from headgate.base.errors import InvalidInput, UnsendableMessage
from headgate.base.ids import Ids
from headgate.flow.jobs.submit import check_name
from headgate.flow.outbox.targets import Targets
from headgate.model.job import Job
from headgate.model.record import ChunkMessage
from headgate.ports.outbox import NewMessage

PAYLOAD_BYTES_MAX = 1024 * 1024
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
    if key is not None and not _fits_header(key):
        raise InvalidInput("key", f"must be 1 to {KEY_LENGTH_MAX} printable ASCII characters")
    for field, given in (("run_id", run_id), ("user_id", user_id)):
        if given is not None:
            check_name(field, given)
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
    """The messages of the next chunk of `job`; raises UnsendableMessage if one is wrong.

    Their keys stay the same if the chunk has to be read again.
    """
    if len(messages) > CHUNK_MESSAGES_MAX:
        raise UnsendableMessage(
            f"messages: there are {len(messages):,}; use at most {CHUNK_MESSAGES_MAX}"
        )
    found = []
    for place, each in enumerate(messages):
        if not isinstance(each, ChunkMessage):
            raise UnsendableMessage(
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
            raise UnsendableMessage(f"messages[{place}].{error}") from None
        found.append(new)
    return found


def _fits_header(text: object) -> bool:
    """Whether it is a text that can go into a header, as the key of a message does."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= KEY_LENGTH_MAX
        and text.isascii()
        and text.isprintable()
    )
