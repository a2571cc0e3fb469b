"""What the guide to AWS says that it costs: its products and sums, with the prices of the bench."""

import re

import pytest

from bench import aws
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
    # A day is a chunk with eight requests, as dear as the table of contention says.
    few, many = (
        float(re.findall(rf"^\| {functions} \|.*\| \$([\d.]+) \|", GUIDE, re.MULTILINE)[0])
        for functions in (1, 50)
    )
    [told] = re.findall(
        r"million days cost \$([\d.]+) by few functions, and \$([\d.]+)\s+by fifty.*?"
        r"between \$(\d+) and \$(\d+)",
        GUIDE,
        re.DOTALL,
    )
    days = [chunk + 8 * few, chunk + 8 * many]
    assert [float(each) for each in told[:2]] == pytest.approx(days, abs=5 * CENT)
    assert [float(each) for each in told[2:]] == pytest.approx([7.3 * each for each in days], abs=1)


def test_the_alarms_are_counted() -> None:
    template = (ROOT / "deploy" / "aws" / "template.yaml").read_text(encoding="utf-8")
    alarms = template.count("AWS::CloudWatch::Alarm")
    assert f"{alarms} alarms ${alarms * 0.1:.2f}" in GUIDE
