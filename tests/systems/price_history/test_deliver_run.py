"""What a scrape delivers when it has read the last page."""

from pathlib import Path

from headgate import App
from headgate.systems.price_history import system
from headgate.systems.price_history.commands import deliver_run
from headgate.systems.price_history.settings import PriceHistorySettings
from tests.outboxes import MeetingSender

NAMES = ("alpha", "beta", "production")


async def test_the_rest_of_a_run_goes_to_all_open_backends_at_the_same_time(tmp_path: Path) -> None:
    settings = PriceHistorySettings.model_validate(
        {
            "price_history_targets": ",".join(NAMES),
            "scraper_api_urls": {name: f"https://{name}.test" for name in NAMES},
            "scraper_api_keys": dict.fromkeys(NAMES, "k"),
        }
    )
    app = App(f"sqlite:///{tmp_path}/scraper.db", systems=[system.with_settings(settings)])
    async with app:
        app.outbox.drainer.sender = MeetingSender(2)
        for run_id in ("mine", "another"):
            await app.outbox.submit("price-history", {"normalized": []}, run_id=run_id)

        results = await deliver_run(app, "mine", NAMES, json=False)

    assert {each.target: each.sent for each in results} == {"alpha": 1, "beta": 1}
