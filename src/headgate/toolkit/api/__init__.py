"""Parts of an HTTP API: authenticated routes, problem documents, ETags, idempotent requests."""

from typing import TYPE_CHECKING

from headgate.base.lazy import lazy_names

if TYPE_CHECKING:
    from headgate.toolkit.api.auth import Caller
    from headgate.toolkit.api.bodies import check_body
    from headgate.toolkit.api.documents import (
        Day,
        JobModel,
        LinkDocument,
        MakeLink,
        Name,
        request_config,
        response_config,
        view_for_caller,
    )
    from headgate.toolkit.api.examples import JOB as JOB_EXAMPLE
    from headgate.toolkit.api.jobs import (
        ACCEPTED,
        JOB_ID,
        NOT_MODIFIED,
        PAGE_MAX,
        After,
        Limit,
        accepted_response,
        add_job_controls,
    )
    from headgate.toolkit.api.limits import large_body
    from headgate.toolkit.api.models import fields_of, make_model, model_of, page_model
    from headgate.toolkit.api.problems import ProblemError
    from headgate.toolkit.api.responses import etag_response, json_response, secret_response
    from headgate.toolkit.api.route import (
        IDEMPOTENT,
        IfNoneMatch,
        JobKey,
        TheAdmin,
        TheApp,
        TheCaller,
        TheSite,
        get_problems,
        post_problems,
        router,
        write_problems,
    )
    from headgate.toolkit.api.streams.event_stream import (
        VARY,
        AfterEvent,
        EventStreamResponse,
        LastEventId,
        encode_frame,
        events_response,
        wants_stream,
    )
    from headgate.toolkit.api.streams.job_stream import shown_to, stream_job
else:
    __getattr__ = lazy_names(__name__)

__all__ = [
    "ACCEPTED",
    "IDEMPOTENT",
    "JOB_EXAMPLE",
    "JOB_ID",
    "NOT_MODIFIED",
    "PAGE_MAX",
    "VARY",
    "After",
    "AfterEvent",
    "Caller",
    "Day",
    "EventStreamResponse",
    "IfNoneMatch",
    "JobKey",
    "JobModel",
    "LastEventId",
    "Limit",
    "LinkDocument",
    "MakeLink",
    "Name",
    "ProblemError",
    "TheAdmin",
    "TheApp",
    "TheCaller",
    "TheSite",
    "accepted_response",
    "add_job_controls",
    "check_body",
    "encode_frame",
    "etag_response",
    "events_response",
    "fields_of",
    "get_problems",
    "json_response",
    "large_body",
    "make_model",
    "model_of",
    "page_model",
    "post_problems",
    "request_config",
    "response_config",
    "router",
    "secret_response",
    "shown_to",
    "stream_job",
    "view_for_caller",
    "wants_stream",
    "write_problems",
]
