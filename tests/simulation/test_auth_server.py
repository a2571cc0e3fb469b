"""The authorization server of simulations: which uses of a refresh token it holds against us."""

import pytest

from headgate.base.errors import GrantRefused
from headgate.testing.loop import SimulationLoop
from headgate.testing.runner import run
from headgate.testing.virtual_clock import VirtualClock
from tests.simulation.auth_server import ACCESS_S, TWICE_S, AuthServer


def test_a_refresh_token_is_honoured_once_and_an_access_token_ends() -> None:
    async def main(loop: SimulationLoop) -> None:
        server = AuthServer(loop)
        access, first = server.consent("c")
        second = server.exchange(first.reveal())[1]

        with pytest.raises(GrantRefused):
            server.exchange(first.reveal())
        assert server.exchange(second.reveal())
        assert server.lets_in(access.reveal())
        await VirtualClock(loop).sleep(ACCESS_S)
        assert not server.lets_in(access.reveal())

    run(main)


@pytest.mark.parametrize(
    ("wait_s", "crashes", "found"),
    [(TWICE_S - 1, False, 1), (TWICE_S + 1, False, 0), (TWICE_S - 1, True, 0)],
    ids=["soon after", "long after", "after a crash"],
)
def test_a_second_use_counts_while_the_first_worker_may_store_what_it_got(
    wait_s: float, crashes: bool, found: int
) -> None:
    async def main(loop: SimulationLoop) -> None:
        server = AuthServer(loop)
        _, refresh = server.consent("c")
        first = loop.host("first")

        async def exchange() -> None:
            server.exchange(refresh.reveal())

        await first.spawn(exchange())
        if crashes:
            first.crash()
        await VirtualClock(loop).sleep(wait_s)
        with pytest.raises(GrantRefused):
            server.exchange(refresh.reveal())

        assert len(server.findings) == found

    run(main)


def test_tokens_that_were_lost_count_unless_their_process_died() -> None:
    async def main(loop: SimulationLoop) -> None:
        server = AuthServer(loop)
        _, stored = server.consent("c")
        host = loop.host("worker")

        async def exchange() -> None:
            server.exchange(stored.reveal())

        await host.spawn(exchange())
        server.judge_stored("c", stored.reveal(), active=True)
        assert [found.split(":")[0] for found in server.findings] == ["TOKEN"]
        host.crash()
        server.judge_stored("c", stored.reveal(), active=True)
        assert len(server.findings) == 1

    run(main)


def test_a_connection_that_is_refused_with_a_good_token_counts() -> None:
    async def main(loop: SimulationLoop) -> None:
        server = AuthServer(loop)
        _, stored = server.consent("c")
        server.judge_stored("c", stored.reveal(), active=True)
        assert server.findings == []
        server.judge_stored("c", stored.reveal(), active=False)
        assert len(server.findings) == 1

    run(main)
