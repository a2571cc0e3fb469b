"""The events that Headgate itself logs; `docs/reference/log-events.md` says what each means.

Values are stable: people filter and alert by them. A system outside the engine has an enum of its
own.
"""

from enum import StrEnum


class LogEvent(StrEnum):
    """What a line of the log is about."""

    # Jobs and items.
    #: One for each attempt at a chunk, whatever became of it.
    CHUNK = "chunk"
    #: A chunk failed: it is tried again, or given up.
    CHUNK_FAILED = "chunk_failed"
    #: One for each attempt at an item, whatever became of it.
    ITEM_FETCH = "item_fetch"
    #: An item could not be fetched: it is tried again, or given up.
    ITEM_NOT_FETCHED = "item_not_fetched"
    ITEMS_NOT_RETURNED = "items_not_returned"
    #: Other workers have them by now: this one was too slow to extend its leases.
    CLAIMS_LOST = "claims_lost"
    CLAIMS_NOT_EXTENDED = "claims_not_extended"
    SLICE_FAILED = "slice_failed"
    #: A connector raised an error that no provider causes, such as a KeyError.
    CONNECTOR_BUG = "connector_bug"
    #: A sync's own function about its jobs failed; the job itself is as it was.
    JOB_HOOK_FAILED = "job_hook_failed"
    PROVIDER_RECOVERED = "provider_recovered"

    # Schedules.
    #: A tick of a schedule, or a look at how fresh users' data is, gives jobs to users.
    TICK_STARTED = "tick_started"
    TICK_COMPLETED = "tick_completed"
    #: Another process has fired the tick, or somebody has paused the schedule meanwhile.
    TICK_TAKEN = "tick_taken"
    TICKS_MISSED = "ticks_missed"
    #: The provider's budget is not enough for all users.
    BUDGET_TOO_SMALL = "budget_too_small"
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"

    # The outbox.
    #: A drain, whoever asked for it, began or ended.
    DRAIN_BEGAN = "drain_began"
    DRAIN_ENDED = "drain_ended"
    #: A delivery was not accepted; its state says what happens next.
    NOT_DELIVERED = "not_delivered"
    DELIVERIES_NOT_RELEASED = "deliveries_not_released"
    #: Nothing more is sent to the target until its URL or its key is corrected.
    TARGET_STOPPED = "target_stopped"
    TARGET_RESUMED = "target_resumed"

    # The worker process.
    STARTED = "started"
    #: What was done since the last such line; there is none while nothing is done.
    WORKING = "working"
    #: What was due was put right: leases that had run out, cool-downs that were over.
    SWEPT = "swept"
    #: A background service failed once, and goes on after a rest.
    ROUND_FAILED = "round_failed"
    STOPPED = "stopped"
    #: Another worker's process has died: its claims are given to others at once.
    WORKER_DIED = "worker_died"
    #: Others cannot tell whether this worker lives: if it is killed, its leases have to expire.
    LIVENESS_UNKNOWN = "liveness_unknown"
    #: The row of a worker that has stopped could not be removed.
    PRESENCE_NOT_ENDED = "presence_not_ended"

    # AWS.
    #: Messages about due jobs were not sent; the sweeper sends them again.
    HINTS_NOT_SENT = "hints_not_sent"
    #: Jobs are due whose messages were lost, or were too far off to be sent at the time.
    HINTS_SENT_AGAIN = "hints_sent_again"
    #: A message could not be worked on; it comes again, or goes to the dead-letter queue.
    MESSAGE_FAILED = "message_failed"

    # Budgets.
    RATE_LIMITED = "rate_limited"
    LIMITER_AWAY = "limiter_away"
    LIMITER_BACK = "limiter_back"
    #: The provider's own counts did not reach the limiter.
    COUNTS_NOT_TOLD = "counts_not_told"
    COUNTS_UNREADABLE = "counts_unreadable"
    #: The limiter does not know that the provider refused a request by its limit.
    REFUSAL_NOT_TOLD = "refusal_not_told"
    SLOT_NOT_RETURNED = "slot_not_returned"

    # Connections and credentials.
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    NEEDS_REAUTH = "needs_reauth"
    CREDENTIALS_RENEWED = "credentials_renewed"
    CREDENTIALS_UNREADABLE = "credentials_unreadable"
    #: The present access token is used while it is good.
    RENEWAL_PUT_OFF = "renewal_put_off"
    TOKENS_NOT_STORED = "tokens_not_stored"
    #: Credentials were encrypted under the newest key.
    REKEYED = "rekeyed"

    # Users.
    #: Schedules skip the user from now on, or serve them again.
    USER_PAUSED = "user_paused"
    USER_RESUMED = "user_resumed"
    #: Everything that is stored of a user is being deleted, or is deleted.
    ERASURE_BEGUN = "erasure_begun"
    USER_ERASED = "user_erased"
    #: A worker could not go on with an erasure; it tries again in five minutes.
    ERASURE_FAILED = "erasure_failed"
    #: An authorization could not be withdrawn at the provider; it is deleted here all the same.
    NOT_REVOKED = "not_revoked"
    #: A page was shown to its user, but when they came could not be written.
    LOGIN_NOT_WRITTEN = "login_not_written"

    # Requests to providers.
    REQUEST = "request"
    #: A request failed and is sent again.
    REQUEST_AGAIN = "request_again"

    # The database.
    LOCKS_FREED = "locks_freed"
    LOCKS_NOT_FREED = "locks_not_freed"
    SIGNAL_CLOSE_FAILED = "signal_close_failed"
    #: Other processes on the SQLite file cannot send hints: their commits are seen by watching it.
    NO_SOCKET = "no_socket"

    # The API and the pages.
    API_KEY_MADE = "api_key_made"
    API_KEY_REVOKED = "api_key_revoked"
    AUTHENTICATION_FAILED = "authentication_failed"
    ACCESS_DENIED = "access_denied"
    #: The request took so long that another may have begun under its key.
    IDEMPOTENCY_KEY_LOST = "idempotency_key_lost"
    REQUEST_FAILED = "request_failed"
    #: An event stream was closed before its end; its client comes back for the rest.
    STREAM_BROKEN = "stream_broken"
    #: A client that kept the server waiting was cut off.
    CONNECTION_CUT = "connection_cut"
    CONNECTIONS_FULL = "connections_full"
    METRICS_FAILED = "metrics_failed"
    NOT_HEALTHY = "not_healthy"
    #: A SQLite file could not be brought up to date; everything is durable in its log.
    NO_CHECKPOINT = "no_checkpoint"
