"""A job's events as a stream: all of them, once each, to whom they belong, until it has ended."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import Engine, event

from headgate import Chunk, ChunkEvent, Context, Malformed, RetryPolicy
from headgate.base.errors import StoreUnavailable
from headgate.toolkit.api.streams.event_stream import EventStreams
from headgate.toolkit.api.streams.job_stream import PAGE_EVENTS
from tests.web.callers import Served, history, on_server, problem, read_day, start, with_server
from tests.web.streaming import STREAM, Got, Stream, events, frames, opened
from tests.worlds import as_test

#: So many events of the source come with each day: more than a page in all.
PER_DAY = 15


async def read_noisily(ctx: Context) -> Chunk:
    """A day whose source has much to tell, and some hours to take."""
    return Chunk(events=[ChunkEvent("line_read", {"n": n, "text": "é\n"}) for n in range(PER_DAY)])


def path_of(job: dict[str, Any]) -> str:
    return f"/v1/jobs/{job['id']}/events"


async def started(served: Served) -> tuple[str, dict[str, Any]]:
    """A user's key, and a job that was started with it."""
    token = await served.token()
    return token, await start(served.with_headers({"Authorization": f"Bearer {token}"}))


async def listed(served: Served, job_id: str) -> list[Any]:
    """Every event of the job, in order, as the store has them."""
    return list(await served.app.jobs.events(job_id, limit=10_000))


async def all_events(stream: Stream) -> list[Got]:
    """Read to the end."""
    got = [await stream.next_event()]
    while got[-1].event != "end":
        got.append(await stream.next_event())
    return got


# ---- what is sent ------------------------------------------------------------------------------


@with_server
async def test_a_job_is_followed_from_its_first_event_to_its_end(served: Served) -> None:
    # Given a stream of a job that nobody works on yet
    token = await served.token()
    client = served.with_headers({"Authorization": f"Bearer {token}"})
    job = await start(client)
    async with opened(served, path_of(job), token) as (stream, task):
        assert (await stream.next()).retry == "2000"
        assert (await stream.next()).event == "submitted"

        # When the job runs to its end
        await served.app.supervisor().start()
        got = await all_events(stream)
        await task

    # Then everything came once, in order, as the list has it, and the end was the last
    assert stream.complete
    page = (await client.get(path_of(job))).json()["data"]
    assert [each.data for each in events(frames(stream.body))[:-1]] == page
    assert [each.id for each in got[:-1]] == [str(each["id"]) for each in page[1:]]
    assert [each.event for each in got[:-1]] == [each["kind"] for each in page[1:]]
    end = got[-1]
    assert (end.id, end.event) == (None, "end")
    assert end.data == {"job_id": job["id"], "state": "success"}
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.headers["cache-control"] == "no-store"
    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["vary"] == "Accept"


@as_test(on_server, history(read=read_noisily))
async def test_whoever_comes_back_misses_nothing_and_gets_nothing_twice(served: Served) -> None:
    # Given a client that goes away after every seventh event, wherever that is
    token, job = await started(served)
    [first] = await listed(served, job["id"])
    await served.app.supervisor().start()
    got: list[Got] = []
    while not got or got[-1].event != "end":
        last = {"Last-Event-ID": str(got[-1].id)} if got else {}
        # What is asked for in the address is what the client began with.
        path = f"{path_of(job)}?after={first.id}"
        async with opened(served, path, token, headers={**STREAM, **last}) as (stream, _):
            for _ in range(7):
                got.append(await stream.next_event())
                if got[-1].event == "end":
                    break

    # Then the pieces are the whole
    stored = await listed(served, job["id"])
    assert [each.id for each in got[:-1]] == [str(each.id) for each in stored[1:]]
    assert len(stored) > PAGE_EVENTS


@with_server
async def test_a_job_that_has_ended_is_told_to_its_end_at_once(served: Served) -> None:
    client = await served.client()
    job = await start(client)
    await client.post(f"/v1/jobs/{job['id']}/cancel")
    stored = await listed(served, job["id"])
    now = served.clock.monotonic()

    whole = await client.get(path_of(job), headers=STREAM)
    last = str(stored[-1].id)
    rest = await client.get(path_of(job), params={"after": stored[0].id}, headers=STREAM)
    none = await client.get(path_of(job), headers={**STREAM, "Last-Event-ID": last})

    told = [[each.event for each in events(frames(got.text))] for got in (whole, rest, none)]
    assert told == [["submitted", "cancelled", "end"], ["cancelled", "end"], ["end"]]
    assert events(frames(none.text))[0].data["state"] == "cancelled"
    assert served.clock.monotonic() == now


@with_server
async def test_silence_is_broken_by_heartbeats(served: Served) -> None:
    token, job = await started(served)
    async with opened(served, path_of(job), token) as (stream, _):
        await stream.next_event()
        began = served.clock.monotonic()

        beats = [await stream.next() for _ in range(4)]

        assert [each.comment for each in beats] == ["heartbeat"] * 4
        assert served.clock.monotonic() - began == pytest.approx(60.0)

        # An event is as good as a heartbeat.
        await served.clock.sleep(10)
        await served.app.jobs.pause(job["id"])
        assert (await stream.next()).event == "paused"
        told = served.clock.monotonic()
        assert (await stream.next()).comment == "heartbeat"
        assert served.clock.monotonic() - told == pytest.approx(15.0)


@with_server
async def test_a_stream_is_sent_where_it_is_asked_for_and_a_list_elsewhere(served: Served) -> None:
    client = await served.client()
    job = await start(client)
    await client.post(f"/v1/jobs/{job['id']}/cancel")

    for accept, wanted in (
        ("application/json, text/event-stream", True),
        ("application/json, text/event-stream;q=0.9", False),
        ("", False),
    ):
        answer = await client.get(path_of(job), headers={"Accept": accept})
        assert answer.status_code == 200
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind == ("text/event-stream" if wanted else "application/json"), accept
        assert answer.headers["vary"] == "Accept"


@with_server
async def test_an_id_that_no_event_can_have_is_refused(served: Served) -> None:
    client = await served.client()
    job = await start(client)

    for wrong in ("-1", "seven", "1.5", str(2**63)):
        answer = await client.get(path_of(job), headers={**STREAM, "Last-Event-ID": wrong})
        assert problem(answer, 422, "invalid_input")["field"] == "Last-Event-ID"


# ---- to whom -----------------------------------------------------------------------------------


@pytest.mark.security(2)
@with_server
async def test_another_users_job_is_not_found_before_anything_is_sent(served: Served) -> None:
    job = await start(await served.client(user_id="bob"))
    eve = await served.client(user_id="eve")

    problem(await eve.get(path_of(job), headers=STREAM), 404, "not_found")
    problem(await eve.get("/v1/jobs/none/events", headers=STREAM), 404, "not_found")
    problem(await served.with_headers(STREAM).get(path_of(job)), 401, "unauthorized")


async def read_malformed(ctx: Context) -> Chunk:
    raise Malformed("no JSON")


@as_test(
    on_server, history(read=read_malformed, retry=RetryPolicy(errors_max=1, outage_pauses_max=0))
)
async def test_what_is_for_operators_is_streamed_to_them_alone(served: Served) -> None:
    client, admin = await served.client(), await served.admin()
    job = await start(client)
    await served.work_off(job["id"])

    told = await client.get(path_of(job), headers=STREAM)
    seen = await admin.get(path_of(job), headers=STREAM)

    assert "no JSON" not in told.text and "no JSON" in seen.text
    assert len(frames(told.text)) == len(frames(seen.text))


@with_server
async def test_a_revoked_key_gets_no_further_event(served: Served) -> None:
    token, job = await started(served)
    async with opened(served, path_of(job), token) as (stream, task):
        await stream.next_event()
        [key] = await served.keys.list()

        await served.keys.revoke(key.id)
        await served.app.jobs.cancel(job["id"])
        await task

    assert stream.complete
    assert [each.event for each in events(frames(stream.body))] == ["submitted"]


# ---- how many ----------------------------------------------------------------------------------


@with_server
async def test_a_key_has_so_many_streams_and_no_more(served: Served) -> None:
    # Given a key with twenty open streams
    token = await served.token()
    client = served.with_headers({"Authorization": f"Bearer {token}"})
    job = await start(client)
    streams: EventStreams = served.web.state.api.streams
    [key] = await served.keys.list()
    async with asyncio.TaskGroup() as group:
        leave = asyncio.Event()

        async def follow() -> None:
            async with opened(served, path_of(job), token) as (stream, _):
                await stream.next_event()
                await leave.wait()

        for _ in range(20):
            group.create_task(follow())
        while streams.count(key.id) < 20:
            await served.clock.sleep(1)

        # When it asks for one more
        answer = await client.get(path_of(job), headers=STREAM)

        # Then that is refused, another key is not, and whatever is no stream is answered
        told = problem(answer, 429, "too_many_streams")
        assert "at most 20 event streams" in told["detail"] and told["retryable"]
        assert answer.headers["retry-after"]
        assert streams.count(key.id) == 20
        assert (await client.get(path_of(job))).status_code == 200
        async with opened(served, path_of(job), await served.token()) as (other, _):
            assert (await other.next_event()).event == "submitted"
        leave.set()

    # And when they have gone away, there is room again
    assert streams.count(key.id) == 0
    async with opened(served, path_of(job), token) as (stream, _):
        assert (await stream.next_event()).event == "submitted"


@with_server
async def test_idle_streams_cost_one_query_a_second_together(served: Served) -> None:
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    # Given forty streams of two users' jobs that wait for a worker
    followed = [(await served.token(user_id=user), user) for user in ("ada", "bob") * 2]
    jobs = {
        user: await start(served.with_headers({"Authorization": f"Bearer {token}"}))
        for token, user in followed[:2]
    }
    leave = asyncio.Event()

    async def follow(token: str, user: str) -> None:
        async with opened(served, path_of(jobs[user]), token) as (stream, _):
            await stream.next_event()
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        for token, user in followed * 10:
            group.create_task(follow(token, user))
        await served.clock.sleep(5)

        # When a minute passes
        event.listen(Engine, "before_cursor_execute", note)
        try:
            await served.clock.sleep(60)
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        leave.set()

    # Then all of them were looked at in one query a second
    looks = [each for each in sent if each.startswith("SELECT")]
    assert 59 <= len(looks) <= 61
    assert all("max(headgate_job_events.id)" in each for each in looks)

    # And nobody looks when nobody waits.
    sent.clear()
    event.listen(Engine, "before_cursor_execute", note)
    try:
        await served.clock.sleep(60)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert sent == []


# ---- how it ends -------------------------------------------------------------------------------


@with_server
async def test_a_client_that_goes_away_leaves_nothing_behind(served: Served) -> None:
    token, job = await started(served)
    before = asyncio.all_tasks()

    async with opened(served, path_of(job), token) as (stream, _):
        await stream.next_event()
        assert len(asyncio.all_tasks()) > len(before)

    await served.clock.sleep(0)
    assert asyncio.all_tasks() == before
    # Nobody is told of the end who is not there.
    assert not stream.complete


@with_server
async def test_a_server_that_stops_ends_its_streams_at_once(served: Served) -> None:
    token, job = await started(served)
    stopping = asyncio.Event()
    async with opened(served, path_of(job), token, stopping=stopping) as (stream, task):
        await stream.next_event()
        now = served.clock.monotonic()

        stopping.set()
        await task

    # The response is complete, and the client knows by the missing `end` that there is more.
    assert stream.complete and served.clock.monotonic() == now
    assert [each.event for each in events(frames(stream.body))] == ["submitted"]


@as_test(on_server, history(read=read_noisily))
async def test_a_client_that_does_not_read_costs_one_page(served: Served) -> None:
    # Given many events, and a client that reads the first frame alone
    token, job = await started(served)
    await served.work_off(job["id"])
    asked: list[int] = []
    read = served.app._runtime.events.list_events

    async def counted(job_id: str, *, after: int, limit: int) -> Any:
        asked.append(after)
        return await read(job_id, after=after, limit=limit)

    served.app._runtime.events.list_events = counted  # type: ignore[method-assign]
    async with opened(served, path_of(job), token) as (stream, _):
        await stream.next()
        stream.stuck = asyncio.Event()

        # When it does nothing for an hour
        await served.clock.sleep(3600)

        # Then one page was read, and the rest when it goes on
        assert asked == [0]
        stream.stuck.set()
        assert (await all_events(stream))[-1].data["state"] == "success"
        assert len(asked) > 1


@with_server
async def test_a_look_that_fails_is_taken_again(served: Served) -> None:
    token, job = await started(served)
    look, failures = served.app._runtime.events.last_events, iter(range(3))

    async def failing(job_ids: Any) -> Any:
        if next(failures, None) is not None:
            raise StoreUnavailable("down")
        return await look(job_ids)

    served.app._runtime.events.last_events = failing  # type: ignore[method-assign]
    async with opened(served, path_of(job), token) as (stream, _):
        await stream.next_event()
        await served.app.jobs.cancel(job["id"])

        assert (await stream.next_event()).event == "cancelled"
        assert next(failures, None) is None


@as_test(on_server, history(read=read_day))
async def test_a_store_that_fails_closes_the_stream_and_the_client_comes_back(
    served: Served,
) -> None:
    token, job = await started(served)
    read = served.app._runtime.events.list_events
    async with opened(served, path_of(job), token) as (stream, task):
        first = await stream.next_event()

        async def failing(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("down")

        served.app._runtime.events.list_events = failing  # type: ignore[method-assign]
        await served.app.jobs.cancel(job["id"])
        await task
    assert stream.complete
    assert [each.event for each in events(frames(stream.body))] == ["submitted"]

    served.app._runtime.events.list_events = read  # type: ignore[method-assign]
    last = {**STREAM, "Last-Event-ID": str(first.id)}
    async with opened(served, path_of(job), token, headers=last) as (stream, _):
        assert [each.event for each in await all_events(stream)] == ["cancelled", "end"]
