"""The `Access` port on a SQL database."""

from headgate.store.sql import access
from headgate.store.sql.port import SqlPort, reads, writes, writes_timed


class SqlAccess(SqlPort):
    """API keys and requests in SQLite or Postgres."""

    add_key = writes_timed(access.add_key)
    find_key = reads(access.find_key)
    list_keys = reads(access.list_keys)
    revoke_key = writes_timed(access.revoke_key)
    begin = writes_timed(access.begin)
    finish = writes_timed(access.finish)
    abandon = writes(access.abandon)
