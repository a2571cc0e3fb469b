"""Requests with an Idempotency-Key.

A request begins with a conditional write of its item, so of two at the same time one wins. The
winner has the claim until `ends_at`, and its later writes name that time. DynamoDB deletes what has
ended, some time later; until then it counts as if it were not there.
"""

import zlib
from datetime import datetime, timedelta

from headgate.base.encoding import from_json, to_json
from headgate.base.errors import Conflict
from headgate.ports.people.idempotency import (
    Known,
    RequestInProgress,
    RequestMismatch,
    RequestStarted,
    StoredAnswer,
)
from headgate.store.dynamodb.engine import keys
from headgate.store.dynamodb.engine.attributes import Attributes
from headgate.store.dynamodb.engine.definition import TTL
from headgate.store.dynamodb.engine.errors import ConditionFailed
from headgate.store.dynamodb.engine.keys import time_text
from headgate.store.dynamodb.engine.table import DynamoTable
from headgate.store.dynamodb.engine.writes import IS_NEW, Delete, Put, Update, set_and_remove

_IS_CLAIMED = "#ends_at = :until AND attribute_not_exists(#status)"


class DynamoIdempotency:
    """Idempotent requests in DynamoDB."""

    def __init__(self, table: DynamoTable) -> None:
        """Use `table`, which must be open."""
        self._table = table

    async def begin(self, owner: str, key: str, request_hash: str, *, lease: timedelta) -> Known:
        """Write the request's item or take over one that has ended; else return what is stored."""
        now = self._table.now()
        pk, sk = keys.request(owner, key)
        item = {"pk": pk, "sk": sk, "request_hash": request_hash, **_ends(now + lease)}
        put = Put(
            item=item, condition=f"{IS_NEW} OR #ends_at <= :now", values={"now": time_text(now)}
        )
        try:
            await self._table.write(put)
        except ConditionFailed as failed:
            found = failed.found[0] or await self._table.get((pk, sk))
        else:
            return RequestStarted(now + lease)
        if found is None:
            # It was abandoned between the two requests.
            raise Conflict("the same request was abandoned at this moment; try again")
        if found["request_hash"] != request_hash:
            return RequestMismatch()
        return _answer(found) if "status" in found else RequestInProgress()

    async def finish(
        self,
        owner: str,
        key: str,
        started: RequestStarted,
        answer: StoredAnswer,
        *,
        keep: timedelta,
    ) -> bool:
        """Store the answer, unless the request was taken over meanwhile."""
        written = {
            "status": answer.status,
            "headers": to_json(dict(answer.headers)),
            # Compressed: an answer about many jobs may be larger than an item.
            "body": zlib.compress(answer.body),
            **_ends(self._table.now() + keep),
        }
        update = Update(
            at=keys.request(owner, key),
            change=set_and_remove(written),
            condition=_IS_CLAIMED,
            values={**written, "until": time_text(started.until)},
        )
        try:
            await self._table.write(update)
        except ConditionFailed:
            return False
        return True

    async def abandon(self, owner: str, key: str, started: RequestStarted) -> None:
        """Delete the request's item, unless it was taken over meanwhile."""
        delete = Delete(
            at=keys.request(owner, key),
            condition=_IS_CLAIMED,
            values={"until": time_text(started.until)},
        )
        try:
            await self._table.write(delete)
        except ConditionFailed:
            return


def _ends(at: datetime) -> Attributes:
    return {"ends_at": time_text(at), TTL: int(at.timestamp())}


def _answer(item: Attributes) -> StoredAnswer:
    headers = from_json(item["headers"])
    assert isinstance(headers, dict)
    return StoredAnswer(status=item["status"], headers=headers, body=zlib.decompress(item["body"]))
