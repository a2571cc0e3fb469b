"""A function whose process is killed in the middle of a chunk, as Lambda does at the time-out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate import JobState
from headgate.flow.leases.claims import LEASE
from headgate.model.job import Lane
from headgate.policy.hints import RECEIVED_WITHIN
from tests.aws.test_on_demand import Place
from tests.aws_stack import Stack

COLD = Lane.COLD

#: An application whose second page never comes, and the call of its function.
PROGRAM = """
import asyncio, json, sys
from headgate import App, Chunk, Lane, Record, Sync
from headgate.aws import handlers
from headgate.aws.container import Container
from headgate.backends import load_settings
from headgate.backends.dynamodb import open_dynamodb
from headgate.base.clock import SystemClock

class Pages:
    name = "scripted"

    async def read(self, ctx):
        if ctx.cursor:
            print("in the second page", flush=True)
            await asyncio.Event().wait()
        return Chunk(records=[Record(key="0", data={"page": 0})], cursor=1)

class Context:
    def get_remaining_time_in_millis(self):
        return 900_000

def make_app():
    settings = load_settings()
    backend = open_dynamodb(settings.database, SystemClock(), settings.queues())
    return App(backend, syncs=[Sync(name="pages", source=Pages(), lane=Lane.COLD)])

handlers._container = Container(make_app)
print(handlers.cold({"Records": json.loads(sys.argv[1])}, Context()), flush=True)
"""


@pytest.mark.fault(12)
def test_a_function_whose_process_is_killed_is_followed_by_another(stack: Stack) -> None:
    place = Place(stack)
    job = place.submit("process")
    messages = place.functions.receive(COLD)
    # Given a function that has committed a chunk, and is in the middle of the next
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(messages)],
        env={**os.environ, **stack.environment("ColdFunction"), "HEADGATE_SYSTEMS": ""},
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    ) as function:
        assert function.stdout is not None
        assert function.stdout.readline() == "in the second page\n"
        assert place.job(job.id).state is JobState.RUNNING
        # When its process is killed
        function.kill()

    # Then nothing happens before its lease ends, and the next function goes on after that chunk
    place.functions.sweep()
    assert place.job(job.id).state is JobState.RUNNING
    place.later(2 * LEASE)
    assert place.job(job.id).crashes == 1
    place.later(RECEIVED_WITHIN)
    assert place.functions.deliver(COLD, place.functions.receive(COLD)) == []
    assert place.job(job.id).state is JobState.SUCCESS
    assert place.reads == [1, 2]
    place.close()
