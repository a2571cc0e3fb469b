"""Health history over API, SQS, Lambda and DynamoDB, with every fault that AWS can make."""

import io
import json
import re
from collections.abc import Iterator

import pytest

from headgate import JobState
from headgate.base import log
from headgate.base.clock import SystemClock
from headgate.loops.on_demand import RESERVE_S
from headgate.model.job import Lane, Reason
from headgate.ports.transport import Request
from headgate_sandbox.kit.faults import Fault as ProviderFault
from headgate_sandbox.kit.faults import FaultKind
from tests.aws.health import Product, product
from tests.aws_calls import Killed, client_of
from tests.aws_stack import TEMPLATE, Stack
from tests.dynamo_faults import Fault, first

COLD = Lane.COLD
#: What the template counts in the logs as an opening of a breaker.
_BREAKER = re.compile(r"""FilterPattern: '{ \$\.event = "(\w+)" && \$\.reason = "(\w+)" }'""")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What the functions log, at the least level that the template allows."""
    stream = io.StringIO()
    log.configure(SystemClock(), json=True, level="warning", stream=stream)
    yield stream
    log.configure(SystemClock(), json=True, level="critical")


def check_everything_is_there_once(here: Product, job_id: str) -> None:
    """Every exercise is at Strava once, and no request was over a limit."""
    job = here.job(job_id)
    assert job.state is JobState.SUCCESS
    assert here.uploads() == here.expected(job)
    assert here.uploads()
    for sandbox in (here.google, here.strava):
        assert sandbox.meter.overshoot() == 0
        assert sandbox.requests.count(status=429) == 0


@pytest.mark.fault(8, 9, 12, 13, 14)
def test_a_user_s_past_is_imported_in_spite_of_every_fault(stack: Stack) -> None:
    with product(stack, "ada") as here:
        functions = here.functions
        job_id = here.start()
        assert here.status(job_id)["status"] == "PENDING"

        # The message is delivered twice, and there is no time: nothing is read.
        [message] = functions.receive(COLD)
        functions.deliver(COLD, [message, {**message, "messageId": "twice"}], remaining_s=RESERVE_S)
        assert here.status(job_id)["status"] == "PENDING"

        # The function is killed after Strava took an upload, before that is committed.
        def kill(request: Request) -> None:
            if request.method == "POST" and request.url.endswith("/uploads"):
                raise Killed

        assert here.wire is not None
        here.wire.after = kill
        with pytest.raises(Killed):
            while True:
                functions.deliver(COLD, functions.receive(COLD) or [message])
        functions.start_cold()
        assert here.status(job_id)["status"] == "RUNNING"
        assert len(here.uploads()) == 1
        assert here.job(job_id).summary.records == 0

        # Its lease ends; writes are throttled, and answers lost.
        here.wait(job_id)
        client_of(functions).choose = first(3, Fault.THROUGHPUT, of="transact_write_items")
        here.wait(job_id)
        functions.deliver(COLD, functions.receive(COLD), remaining_s=RESERVE_S + 1)
        client_of(functions).choose = first(2, Fault.ANSWER_LOST, of="transact_write_items")

        # The index stands still while the job goes on.
        with client_of(functions).stale():
            here.wait(job_id)
            functions.deliver(COLD, functions.receive(COLD), remaining_s=RESERVE_S + 1)
            here.wait(job_id)
        here.work(job_id)
        assert client_of(functions).met == {Fault.THROUGHPUT: 3, Fault.ANSWER_LOST: 2}
        assert client_of(functions).stale_answers > 0

        # Every message once more, when all is done.
        for late in list(functions.received):
            assert functions.deliver(COLD, [late]) == []
        told = here.status(job_id)
        assert (told["status"], told["percent"], told["gaps"]) == ("COMPLETED", 100, [])
        check_everything_is_there_once(here, job_id)


def test_a_paused_job_is_retried_at_once_or_goes_on_by_itself(
    stack: Stack, logged: io.StringIO
) -> None:
    # A limit that is not in the way.
    with product(stack, "bob", strava_limit=1000) as here:
        # Given a provider that fails
        job_id = here.start(days=2)
        here.strava.faults.add(ProviderFault(kind=FaultKind.OUTAGE))
        here.work_until_paused(job_id)
        assert here.job(job_id).reason is Reason.BREAKER
        # The alarm finds it in the log.
        [(event, reason)] = set(_BREAKER.findall(TEMPLATE.read_text(encoding="utf-8")))
        lines = [json.loads(line) for line in logged.getvalue().splitlines()]
        found = [each for each in lines if (each["event"], each.get("reason")) == (event, reason)]
        assert [each["job"] for each in found] == [job_id]

        # When the user taps "Retry now", then it is tried at once, and paused again
        status, _ = here.call("POST", f"/jobs/{job_id}/retry")
        assert status == 200
        assert here.status(job_id)["status"] == "PENDING"
        [message] = here.functions.receive(COLD)
        asked = here.strava.requests.count()
        here.functions.deliver(COLD, [message])
        assert here.strava.requests.count() > asked
        here.work_until_paused(job_id)

        # When the provider is there again, nothing happens until the cool-down is over
        here.strava.faults.clear()
        here.functions.sweep()
        assert here.status(job_id)["status"] == "PAUSED"
        assert here.functions.receive(COLD) == []
        # Then the sweeper lets it go on, with a message
        here.wait(job_id)
        assert here.status(job_id)["status"] == "PENDING"
        here.work(job_id)
        assert here.status(job_id)["status"] == "COMPLETED"
        check_everything_is_there_once(here, job_id)
