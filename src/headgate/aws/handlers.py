"""The functions: `hot`, `cold`, `sweeper` and `api`, as the template names them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from headgate.app import App
from headgate.aws.batch import work_on
from headgate.aws.container import Container, app_from_environment
from headgate.model.job import Lane

#: What Lambda hands to a function, and what it takes back.
Event = Mapping[str, Any]
Answer = dict[str, Any]


class LambdaContext(Protocol):
    """What Lambda tells about a call."""

    def get_remaining_time_in_millis(self) -> int:
        """The time until the function is killed."""
        ...


#: One for each container: Lambda imports this module once in it.
_container = Container(app_from_environment)


def hot(event: Event, context: LambdaContext) -> Answer:
    """Work on the live jobs that messages name."""
    return _container.run(partial(_work, Lane.HOT, event, context))


def cold(event: Event, context: LambdaContext) -> Answer:
    """Work on the backfills that messages name, for as long as there is time."""
    return _container.run(partial(_work, Lane.COLD, event, context))


def sweeper(event: Event, context: LambdaContext) -> Answer:
    """Rescue, thaw, prune, and send messages about due jobs that have none."""
    return _container.run(partial(_sweep, context))


def api(event: Event, context: LambdaContext) -> Answer:
    """Serve a request to the API."""
    global _site
    if _site is None:
        # Loaded here: no other function needs a web framework.
        from headgate.aws.site import make_site

        _site = make_site(_container)
    return _site(event, context)


_site: Callable[[Event, LambdaContext], Answer] | None = None


async def _work(lane: Lane, event: Event, context: LambdaContext, app: App) -> Answer:
    failed = await work_on(app.on_demand, lane, event["Records"], seconds=_remaining_s(context))
    return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}


async def _sweep(context: LambdaContext, app: App) -> Answer:
    sent = await app.on_demand.sweep(seconds=_remaining_s(context))
    return {"hints_sent_again": sent}


def _remaining_s(context: LambdaContext) -> float:
    return context.get_remaining_time_in_millis() / 1000
