"""The HTTP routes of Strava's webhooks: the handshake, and the events.

An event is stored before we respond, and handled later: Strava gives us two seconds, and repeats an
event up to three times without a 200. No request is sent to Strava here.

Events are not signed: whoever knows the address, an athlete's number and an activity's number can
send one. A forged event can cause an activity to be read again, within our limits; delete one that
still exists, until the athlete's activities are listed again a day later; and close a connection,
so that the athlete must sign in again. It cannot bring in data, which is always read from Strava;
it cannot name an account that is not connected; and it learns nothing, because the response is
always the same. So the address must be secret: set HEADGATE_STRAVA_WEBHOOK_KEY, and give Strava the
callback /webhooks/strava/{key}. HEADGATE_STRAVA_SUBSCRIPTION_ID, a number of six digits, keeps out
stray events, not forged ones.
"""

import asyncio
import hmac
from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import SecretStr
from starlette.responses import Response

from headgate.errors import StoreUnavailable
from headgate.systems.activity_streams.events import StravaEvent
from headgate.systems.activity_streams.log_events import StreamsLogEvent
from headgate.systems.activity_streams.names import NAME
from headgate.systems.activity_streams.service import ActivityStreams
from headgate.systems.activity_streams.settings import ActivityStreamsSettings
from headgate.toolkit import get_logger, to_json
from headgate.toolkit.api import ProblemError, TheApp, check_body

PATH = "/webhooks/strava"
#: An event has a few hundred bytes.
BODY_BYTES_MAX = 16 * 1024
#: Strava waits for two seconds; giving up earlier makes it send the event again.
ANSWER_S_MAX = 1.5
CHALLENGE_LENGTH_MAX = 200
_OBJECTS, _ASPECTS = ("activity", "athlete"), ("create", "update", "delete")
_ID_MAX = 2**63 - 1

_log = get_logger(__name__)

routes = APIRouter()


async def _enabled(request: Request, app: TheApp) -> ActivityStreamsSettings:
    """Return the settings; refuse alike if there are no webhooks, or not at this address."""
    found: ActivityStreamsSettings | None = app.systems[NAME].configuration
    if found is None or found.strava_verify_token is None or not _is_address(request, found):
        raise ProblemError("unknown_path", "nothing is served at this path")
    return found


def _is_address(request: Request, found: ActivityStreamsSettings) -> bool:
    expected = "" if found.strava_webhook_key is None else _text(found.strava_webhook_key)
    return _equal(request.path_params.get("key", ""), expected)


def _text(secret: SecretStr) -> str:
    return secret.get_secret_value()


def _equal(given: str, expected: str) -> bool:
    """Compare in constant time; as bytes, because `hmac` refuses text beyond ASCII."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected.encode())


Enabled = Annotated[ActivityStreamsSettings, Depends(_enabled)]


async def handshake(request: Request, agreed: Enabled) -> Response:
    """Echo the challenge, which proves that the address is ours, if the token is right."""
    query = request.query_params
    given = {name: query.getlist(f"hub.{name}") for name in ("mode", "verify_token", "challenge")}
    if any(len(values) != 1 for values in given.values()):
        raise ProblemError("forbidden", "hub.mode, hub.verify_token and hub.challenge are needed")
    mode, token, challenge = (values[0] for values in given.values())
    assert agreed.strava_verify_token is not None
    known = _equal(token, _text(agreed.strava_verify_token))
    if mode != "subscribe" or not known or len(challenge) > CHALLENGE_LENGTH_MAX:
        _log.warning(StreamsLogEvent.WEBHOOK_HANDSHAKE_REFUSED, mode=mode[:20])
        raise ProblemError("forbidden", "the verify token or the mode is wrong")
    return _answer({"hub.challenge": challenge})


async def event(request: Request, app: TheApp, agreed: Enabled) -> Response:
    """Store the event, and acknowledge it."""
    heard = await _read(request)
    if agreed.strava_subscription_id not in (None, heard.subscription_id):
        _log.warning(StreamsLogEvent.WEBHOOK_EVENT_REFUSED, subscription=heard.subscription_id)
        raise ProblemError("forbidden", "the event is of another subscription")
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            concerned = await ActivityStreams(app).handle_event(heard)
    except TimeoutError:
        raise StoreUnavailable("an event was not stored in time") from None
    _log.info(
        StreamsLogEvent.WEBHOOK_EVENT,
        object=heard.object_type,
        aspect=heard.aspect_type,
        connections=concerned.connections,
    )
    return _answer({})


async def _read(request: Request) -> StravaEvent:
    """Read and check the event in the body."""
    body = await request.body()
    if len(body) > BODY_BYTES_MAX:
        raise ProblemError("payload_too_large", f"an event has at most {BODY_BYTES_MAX:,} bytes")
    await check_body(request)
    try:
        heard = msgspec.json.decode(body, type=StravaEvent)
    except msgspec.ValidationError as error:
        raise ProblemError("invalid_input", f"this is not an event: {error}") from None
    except msgspec.DecodeError:
        raise ProblemError("malformed_json", "the body must be one JSON object") from None
    if heard.object_type not in _OBJECTS or heard.aspect_type not in _ASPECTS:
        raise ProblemError("invalid_input", "this is an event of an unknown kind")
    numbers = (heard.object_id, heard.owner_id, heard.subscription_id, heard.event_time)
    if not all(0 <= number <= _ID_MAX for number in numbers):
        raise ProblemError("invalid_input", "an id is out of range")
    return heard


def _answer(document: Mapping[str, str]) -> Response:
    return Response(to_json(document), media_type="application/json")


for _path in (PATH, f"{PATH}/{{key}}"):
    routes.get(_path, include_in_schema=False)(handshake)
    routes.post(_path, include_in_schema=False)(event)
