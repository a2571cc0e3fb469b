"""Submits: one after another, and many at once, beside a bare insert of the same rows."""

from bench.measures import submit_many_rate, submit_rate
from bench.pairs import POSTGRES, Setup, beside_bare


def one_by_one(setup: Setup) -> None:
    """Single submits, each durable before the next, on one connection."""
    count = 400 if setup.quick else 2_000
    for pair in setup.pairs.values():
        rates = beside_bare(pair, lambda _, client: submit_rate(client, count))
        setup.report.add(f"{pair.prefix}submit_per_s", rates.ours, "submits/s", ", one by one")
        setup.report.add(f"{pair.prefix}bare_submit_per_s", rates.bare, "inserts/s", ", bare")
        setup.report.add(f"{pair.prefix}submit_ratio", rates.ratio, "of bare")


def many(setup: Setup) -> None:
    """The bulk call, beside COPY on Postgres and one transaction on SQLite."""
    count = 20_000 if setup.quick else 100_000
    for pair in setup.pairs.values():
        rates = beside_bare(pair, lambda _, client: submit_many_rate(client, count))
        how = "COPY" if pair.name == POSTGRES else "one transaction"
        setup.report.add(f"{pair.prefix}submit_many_per_s", rates.ours, "jobs/s", ", in one call")
        setup.report.add(f"{pair.prefix}bare_submit_many_per_s", rates.bare, "rows/s", f", {how}")
        setup.report.add(f"{pair.prefix}submit_many_ratio", rates.ratio, "of bare")
