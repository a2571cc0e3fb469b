"""What the web tells of a database whose disk or file has a fault."""

from pathlib import Path

from httpx2 import ASGITransport, AsyncClient

from headgate.base.errors import FaultKind, StoreFault
from headgate.cli.serve.metrics import metrics_page
from tests.web.callers import Served, on_server, problem, with_server
from tests.worlds import World, with_world

FAULTS = [StoreFault(kind, "on /srv/data") for kind in FaultKind]


@with_server
async def test_health_and_metrics_name_the_fault(served: Served) -> None:
    admin = await served.admin()
    for fault in FAULTS:
        served.app._database.note_fault(fault)

        answer = await served.with_headers().get("/healthz")

        assert answer.status_code == 503
        assert answer.text == f"unavailable: {fault.sentence}"
        page = (await admin.get("/metrics")).text
        told = [line for line in page.splitlines() if line.startswith("headgate_store_fault{")]
        assert len(told) == len(FAULTS)
        assert [line for line in told if line.endswith(" 1.0")] == [
            f'headgate_store_fault{{kind="{fault.kind}"}} 1.0'
        ]


@with_world
async def test_the_page_of_a_worker_alone_names_the_fault_too(world: World) -> None:
    app = await world.app()
    page = AsyncClient(transport=ASGITransport(metrics_page(app)), base_url="http://worker")

    async def told() -> list[str]:
        lines = (await page.get("/metrics")).text.splitlines()
        return [each for each in lines if each.startswith("headgate_store_fault{")]

    assert len(await told()) == 4 and all(each.endswith(" 0.0") for each in await told())
    app._database.note_fault(StoreFault(FaultKind.DISK_FULL, "on /srv/data"))
    assert 'headgate_store_fault{kind="disk_full"} 1.0' in await told()


def test_a_request_to_a_file_that_is_gone_is_refused_and_may_be_sent_again(tmp_path: Path) -> None:
    async def main(served: Served) -> None:
        client = await served.admin()
        [file] = tmp_path.glob("world-*.db")
        file.unlink()

        answer = await client.get("/v1/jobs")

        told = problem(answer, 503, "store_unavailable")
        assert told["retryable"]
        assert "deleted or replaced" in told["detail"]
        assert str(tmp_path) not in answer.text

    on_server(tmp_path, main)
