"""A sandbox of Strava that is being served, and stravalib as its client.

To import stravalib takes a second, so only who is about to use it imports this.
"""

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from stravalib import Client, exc
from stravalib.protocol import RequestMethod
from stravalib.util.limiter import RateLimiter, RequestRate, get_rates_from_response_headers

from headgate.base.clock import ManualClock
from headgate_sandbox.strava.sandbox import Strava


class ToSandbox(HTTPAdapter):
    """Sends what is meant for www.strava.com to the sandbox; each request takes a second."""

    def __init__(self, base_url: str, clock: ManualClock) -> None:
        super().__init__()
        self._base_url = base_url
        self._clock = clock

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> Any:
        assert request.url is not None
        request.url = request.url.replace("https://www.strava.com", self._base_url)
        response = super().send(request, *args, **options)
        self._clock.advance(1)
        return response


class NotingLimiter(RateLimiter):
    """Parses the headers as stravalib does, and never sleeps."""

    def __init__(self, rates: list[RequestRate | None]) -> None:
        super().__init__()
        self._rates = rates

    def __call__(self, args: dict[str, str], method: RequestMethod) -> None:
        self._rates.append(get_rates_from_response_headers(args, method))


class Site:
    """A sandbox that is being served, and a stravalib client of its first athlete."""

    #: stravalib's exceptions, and what it reads from the headers.
    errors: Any = exc
    rate = RequestRate

    def __init__(self, sandbox: Strava, base_url: str, clock: ManualClock) -> None:
        self.sandbox = sandbox
        self.clock = clock
        self.rates: list[RequestRate | None] = []
        session = requests.Session()
        # Whatever proxies the environment names are not for loopback.
        session.trust_env = False
        session.mount("https://www.strava.com", ToSandbox(base_url, clock))
        self.session = session
        self.client = Client(
            access_token=sandbox.grant().access_token,
            requests_session=session,
            rate_limiter=NotingLimiter(self.rates),
        )
