"""What the guide to AWS says that it costs: its products and sums, with the prices of the bench."""

import re

import pytest

from bench import aws
from headgate.systems.health_history.syncs import DAY_COSTS, EXERCISES_LEAST
from tests.processes import ROOT

GUIDE = (ROOT / "docs" / "how-to" / "aws.md").read_text(encoding="utf-8")
#: What is counted, how many for each chunk, the price for a million, and for a million chunks.
ROWS = re.findall(
    r"^\| ([^|]+?) \| ([\d.]+)[^|]* \| \$([\d.]+) \| \$([\d.]+) \|$", GUIDE, re.MULTILINE
)
[TOGETHER] = re.findall(
    r"^\| \*\*together\*\* \| \| \| \*\*\$([\d.]+)\*\* \|$", GUIDE, re.MULTILINE
)
CENT = 0.01


def test_the_prices_are_those_of_the_bench() -> None:
    prices = [aws.WRITE_UNITS, aws.READ_UNITS, aws.SQS_REQUESTS, aws.CALLS, aws.GB_S]
    assert [float(price) for _, _, price, _ in ROWS] == pytest.approx(prices, abs=CENT / 2)
    assert float(ROWS[-1][1]) == aws.GB * aws.CHUNK_S


def test_products_and_sums_are_right() -> None:
    for _, count, price, product in ROWS:
        assert float(product) == pytest.approx(float(count) * float(price), abs=CENT)
    chunk = sum(float(product) for *_, product in ROWS)
    assert float(TOGETHER) == pytest.approx(chunk, abs=CENT / 2)
    # Eight requests are as dear as the table of contention says.
    few, many = (
        float(re.findall(rf"^\| {functions} \|.*\| \$([\d.]+) \|", GUIDE, re.MULTILINE)[0])
        for functions in (1, 50)
    )
    [told] = re.findall(
        r"million cost \$([\d.]+) by few\s+functions, and \$([\d.]+) by fifty", GUIDE
    )
    assert f"costs ${TOGETHER} + 8 \N{MULTIPLICATION SIGN} ${few}:" in GUIDE
    eight = [chunk + 8 * few, chunk + 8 * many]
    assert [float(each) for each in told] == pytest.approx(eight, abs=CENT)


def test_a_day_of_health_history_is_added_up_rightly() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([\d.]+)[^|$]* \| \$([\d.]+) \|$", GUIDE, re.MULTILINE)
    prices = [float(price) for _, _, price, _ in ROWS]
    for (count, product), price in zip(rows, prices, strict=True):
        assert float(product) == pytest.approx(float(count) * price, abs=CENT)
    day = sum(float(product) for _, product in rows)
    assert f"**${day:.2f}**" in GUIDE
    assert f"7.3 million days, are ${7.3 * day:.0f} by that" in GUIDE
    requests = sum(each.least for each in DAY_COSTS) - 3 * EXERCISES_LEAST
    assert requests == pytest.approx(7)
    seconds = 10 * aws.ANSWER.total_seconds()
    assert float(rows[-1][0]) == aws.GB * seconds


def test_the_alarms_are_counted() -> None:
    template = (ROOT / "deploy" / "aws" / "template.yaml").read_text(encoding="utf-8")
    alarms = template.count("AWS::CloudWatch::Alarm")
    assert f"{alarms} alarms ${alarms * 0.1:.2f}" in GUIDE
