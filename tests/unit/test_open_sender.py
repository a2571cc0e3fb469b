"""What sends to the targets of an application, and what a webhook's URL may lead to."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from headgate.backends import load_settings, open_links, open_sender
from headgate.base.clock import SystemClock
from headgate.base.secret import Secret
from headgate.base.signing import new_signing_secret
from headgate.flow.notifications.service import NotificationSettings
from headgate.flow.outbox.targets import Targets
from headgate.model.delivery import SendFailure, SendOutcome, TargetRefusal
from headgate.model.target import Target, Topic
from tests.connecting import key_entries
from tests.notifying import EMAIL
from tests.unit.connectors.fakes import ScriptedTransport
from tests.unit.model.test_delivery import make_message

SIGNING = new_signing_secret(Random(1))
#: The name of the webhook in these tests, as others see it.
NAME = "hooks.example.com"
SHOP = Target(name="shop", url="http://127.0.0.1:9", key=Secret("k3y"))
ORDERS = Topic(name="orders", path="/v1/orders", targets=("shop",))


async def nobody(user_id: str) -> str | None:
    return None


async def send_to(url: str, *others: Target) -> SendOutcome:
    """The outcome of a notification to a webhook at that URL, beside other targets."""
    webhook = Target(name="hook", url=url, signing=(SIGNING,))
    settings = NotificationSettings(webhook=webhook)
    targets = Targets([settings.topic, ORDERS], [*settings.targets, *others])
    sender, opened = open_sender(targets, settings, SystemClock(), email_of=nobody)
    try:
        return await sender.send(webhook, settings.topic, make_message("{}"))
    finally:
        for each in opened:
            await each.close()


@pytest.fixture
async def resolved(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets every name lead to one address."""

    def lead_to(address: str) -> None:
        async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
            return [(None, None, None, None, (address, port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    return lead_to


PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254"),
    *("168.63.129.16", "0.0.0.0", "224.0.0.1", "::1", "fd00::1", "fe80::1"),
    *("::ffff:127.0.0.1", "64:ff9b::a00:1"),
]


@pytest.mark.parametrize(
    ("address", "scheme", "others", "said"),
    [
        *((address, "https", (), "must not be called") for address in PRIVATE),
        # A target on this machine opens it for no webhook.
        ("127.0.0.1", "https", (SHOP,), "its address is loopback"),
        ("93.184.216.34", "http", (), "only https"),
    ],
)
async def test_a_webhook_is_not_called_whose_name_leads_inside_or_whose_scheme_is_plain(
    resolved: Callable[[str], None], address: str, scheme: str, others: Sequence[Target], said: str
) -> None:
    resolved(address)
    told = await send_to(f"{scheme}://{NAME}/in", *others)
    assert isinstance(told, TargetRefusal) and said in told.reason


@pytest.mark.parametrize("address", [each for each in PRIVATE if each not in ("127.0.0.1", "::1")])
async def test_a_webhook_at_an_address_inside_is_not_called(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    told = await send_to(f"https://{host}/in")
    assert isinstance(told, TargetRefusal) and "must not be called" in told.reason


async def test_a_private_network_may_be_called_once_it_or_the_url_says_so(
    resolved: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(await send_to("http://127.0.0.1:9/in"), SendFailure)
    monkeypatch.setenv("HEADGATE_PRIVATE_NETWORKS", "127.0.0.0/8")
    resolved("127.0.0.1")
    told = await send_to(f"http://{NAME}:9/in")
    assert isinstance(told, SendFailure) and "could not be reached" in told.reason


async def test_every_target_has_a_sender_and_a_transport_is_shared_if_given() -> None:
    settings = NotificationSettings(
        webhook=Target(name="hook", url=f"https://{NAME}", signing=(SIGNING,)), email=EMAIL
    )
    targets = Targets([settings.topic, ORDERS], [*settings.targets, SHOP])
    transport = ScriptedTransport()
    sender, opened = open_sender(
        targets, settings, SystemClock(), email_of=nobody, transport=transport
    )
    assert opened == []
    for each in (settings.webhook, SHOP):
        assert each is not None
        await sender.send(each, ORDERS, make_message("{}"))
    assert len(transport.requests) == 2


def test_links_need_a_public_address_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADGATE_PUBLIC_URL", "HEADGATE_KEYS", "HEADGATE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert load_settings().public_url is None
    assert open_links(SystemClock()) is None
    monkeypatch.setenv("HEADGATE_PUBLIC_URL", "https://sync.example.com/")
    assert open_links(SystemClock()) is None
    monkeypatch.setenv("HEADGATE_KEYS", key_entries("k1")[0])
    links = open_links(SystemClock())
    assert links is not None
    assert links.opt_out_url(user_id="ada").startswith("https://sync.example.com/notifications/")
    assert links.progress_url(job_id="job_1", user_id="ada").startswith(
        "https://sync.example.com/p/"
    )
