"""Users: which texts are a time of day, a time zone and an e-mail address."""

import pytest

from headgate.model.user import email_problem, time_problem, zone_problem


@pytest.mark.parametrize("time", ["00:00", "06:30", "19:59", "23:59"])
def test_times_of_day(time: str) -> None:
    assert time_problem(time) is None


@pytest.mark.parametrize(
    "time",
    ["", "6:30", "24:00", "12:60", "12:3", "12.30", "06:30\n", " 06:30", "06:30:00", "٠٦:٣٠"],
)
def test_what_is_no_time_of_day(time: str) -> None:
    assert "such as 06:30" in str(time_problem(time))


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Vienna", "America/Argentina/Buenos_Aires", "Etc/GMT+12"]
)
def test_time_zones(zone: str) -> None:
    assert zone_problem(zone) is None


@pytest.mark.parametrize(
    "zone",
    [
        *("", "Europe", "Europe/", "Europe/Nowhere", "/etc/passwd", "../zoneinfo/UTC"),
        *("Europe/../UTC", "UTC\n", "UTC\0", "Vienna", "+02:00", "Zürich", "A" * 101),
    ],
)
def test_what_is_no_time_zone(zone: str) -> None:
    assert "such as Europe/Vienna" in str(zone_problem(zone))


@pytest.mark.parametrize(
    "email", ["ada@example.org", "a+b@mail.example.co.uk", "o'hara@x.org", "root@localhost"]
)
def test_email_addresses(email: str) -> None:
    assert email_problem(email) is None


@pytest.mark.parametrize(
    "email",
    [
        *("", "ada", "ada@", "@example.org", "ada@example..org", "ada@-example.org"),
        *("a b@example.org", "ada@example.org\nBcc: eve@example.org"),
        *("ada@example.org,eve@example.org", "Ada <ada@example.org>", f"{'a' * 250}@b.org"),
    ],
)
def test_what_is_no_email_address(email: str) -> None:
    assert "such as ada@example.org" in str(email_problem(email))
