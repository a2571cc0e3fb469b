"""The catalogue of keys: every kind of item has its key here, and nowhere else.

A key's parts are joined by `#`; a `#` within a part is escaped, so that no two keys meet.
"""

from datetime import UTC, date, datetime
from hashlib import blake2b

from headgate.store.dynamodb.engine.attributes import Attributes, Key
from headgate.store.dynamodb.engine.definition import SHARDS, index_keys

#: Sorts after every character that is written here.
LAST = "\U0010ffff"


def join(*parts: str) -> str:
    """The parts as one key."""
    return "#".join(part.replace("%", "%25").replace("#", "%23") for part in parts)


def unescape(part: str) -> str:
    """The part as it was given to `join`."""
    return part.replace("%23", "#").replace("%25", "%")


def shard_of(row_id: str) -> str:
    """The shard of a row: always the same for an id, and even over many."""
    return str(blake2b(row_id.encode(), digest_size=2).digest()[0] % SHARDS)


def shards(*parts: str) -> list[str]:
    """The partition keys of all shards."""
    return [join(*parts, str(shard)) for shard in range(SHARDS)]


def time_text(time: datetime) -> str:
    """A time as text of one length, so that texts sort as their times do."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def index_attributes(index: str, pk: str, sk: str) -> Attributes:
    """The attributes that put an item into an index."""
    return dict(zip(index_keys(index), (pk, sk), strict=True))


# ---- jobs --------------------------------------------------------------------------------------

JOB_SK = "job"


def job(job_id: str) -> Key:
    """A job."""
    return join("job", job_id), JOB_SK


#: An event's number has this many digits, so that events sort in their order.
_EVENT_DIGITS = 12


def event(job_id: str, number: int) -> Key:
    """The events of a job that were written together, by the number of the last of them."""
    return join("job", job_id), event_sk(number)


def event_sk(number: int) -> str:
    """The sort key of an event."""
    return join("event", f"{number:0{_EVENT_DIGITS}d}")


def active_job(sync: str, connection_id: str) -> Key:
    """Which job of a sync is active for a connection."""
    return join("active", sync, connection_id), "active"


def job_key(user_id: str, key: str) -> Key:
    """Which job a user has submitted under an idempotency key."""
    return join("key", user_id, key), "key"


#: One partition each: there are as many items as there are providers.
PROBES = "probe"
BREAKERS = "breaker"


def probe(provider: str) -> Key:
    """Which job is the probe of a provider."""
    return PROBES, provider


def breaker(provider: str) -> Key:
    """That a breaker has opened for jobs of a provider at some time."""
    return BREAKERS, provider


# ---- what jobs store ---------------------------------------------------------------------------


def records(stored_as: str, connection_id: str) -> str:
    """The partition of a connection's records."""
    return join("record", stored_as, connection_id)


def record(stored_as: str, connection_id: str, key: str) -> Key:
    """A record; the records of a connection are in the order of their keys."""
    return records(stored_as, connection_id), own_key(key)


#: Before a key that somebody else has chosen: it may be empty, which no sort key may be.
_OWN = "="


def own_key(key: str) -> str:
    """The sort key for a key that a source has chosen."""
    return _OWN + key


def from_own_key(sk: str) -> str:
    """The key that a source has chosen, of its sort key."""
    return sk.removeprefix(_OWN)


def owners(stored_as: str) -> str:
    """The partition of those connections that have records."""
    return join("owner", stored_as)


def owner(stored_as: str, connection_id: str) -> Key:
    """Whose the records of a connection are."""
    return owners(stored_as), connection_id


def owners_of(stored_as: str, user_id: str) -> str:
    """The partition of a user's connections that have records, in the index by user."""
    return join("owner", stored_as, user_id)


def receipts(stored_as: str, connection_id: str, destination_connection_id: str | None) -> str:
    """The partition of the receipts of a connection's records at one destination account."""
    return join("receipt", stored_as, connection_id, destination_connection_id or "")


def coverage(sync: str, connection_id: str) -> str:
    """The partition of the days of a connection's history."""
    return join("coverage", sync, connection_id)


def day(sync: str, connection_id: str, of_day: date) -> Key:
    """The coverage of one day."""
    return coverage(sync, connection_id), of_day.isoformat()


def high_water(sync: str, connection_id: str) -> Key:
    """The high-water mark of a sync for a connection."""
    return join("mark", sync, connection_id), "mark"


# ---- budgets -----------------------------------------------------------------------------------


def ledger(key: str) -> Key:
    """A ledger of a budget."""
    return join("ledger", key), "ledger"


def limiter(name: str) -> Key:
    """That a limiter elsewhere has begun to count."""
    return join("limiter", name), "limiter"


# ---- users, connections and API keys -----------------------------------------------------------


def user(user_id: str) -> Key:
    """A user."""
    return join("user", user_id), "user"


def user_connection(user_id: str, connection_id: str) -> Key:
    """That a connection is a user's."""
    return join("user", user_id), join("connection", connection_id)


def user_api_key(user_id: str, key_id: str) -> Key:
    """That an API key is a user's."""
    return join("user", user_id), join("api_key", key_id)


def connect_attempt(user_id: str, state_hash: str) -> Key:
    """A user's visit to a provider's consent page."""
    return join("user", user_id), join("attempt", state_hash)


def connection(connection_id: str) -> Key:
    """A connection with its sealed credentials."""
    return join("connection", connection_id), "connection"


def account(source: str, external_id: str) -> str:
    """The partition of the users who have connected an account at a provider."""
    return join("account", source, external_id)


def account_user(source: str, external_id: str, user_id: str) -> Key:
    """Which connection a user has to an account: there is one at most."""
    return account(source, external_id), join("user", user_id)


def api_key(key_id: str) -> Key:
    """An API key."""
    return join("api_key", key_id), "api_key"


def request(owner: str, key: str) -> Key:
    """A request under an idempotency key, which belongs to the API key that sent it."""
    return join("api_key", owner), join("request", key)


# ---- processes ---------------------------------------------------------------------------------


#: One partition: there are as many items as there are worker processes.
WORKERS = "worker"


def worker(worker_id: str) -> Key:
    """A worker process."""
    return WORKERS, worker_id
