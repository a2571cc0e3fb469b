"""This module turns numbers into uids that look random, and back, so that no uid is stored."""

from datetime import UTC, date, datetime

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LENGTH = 9
_SIZE: int = len(_LETTERS) ** _LENGTH
#: It has no factor in common with _SIZE, so that multiplying by it can be undone.
_FACTOR = 7_368_787_163_417_279
_BACK: int = pow(_FACTOR, -1, _SIZE)


def uid_of(number: int) -> str:
    """The uid of a number below 62 to the power of 9."""
    rest = number * _FACTOR % _SIZE
    letters = []
    for _ in range(_LENGTH):
        rest, place = divmod(rest, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


def number_of(uid: str) -> int | None:
    """The number of a uid; None if the text does not have the form of a uid."""
    if len(uid) != _LENGTH or not all(letter in _LETTERS for letter in uid):
        return None
    rest = 0
    for letter in reversed(uid):
        rest = rest * len(_LETTERS) + _LETTERS.index(letter)
    return rest * _BACK % _SIZE


def daily_uid(day: date) -> str:
    """The uid of a daily note, such as `01-05-2026` for January 5th."""
    return day.strftime("%m-%d-%Y")


def day_of(uid: str) -> date | None:
    """The day of a daily note; None if the uid is not that of a daily note."""
    try:
        day = datetime.strptime(uid, "%m-%d-%Y").replace(tzinfo=UTC).date()
    except ValueError:
        return None
    # Python also reads 1-5-2026, but no daily note has that uid.
    return day if daily_uid(day) == uid else None


def daily_title(day: date) -> str:
    """The title of a daily note, such as `January 5th, 2026`."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if 11 <= day.day <= 13 else endings.get(day.day % 10, "th")
    return f"{day:%B} {day.day}{ending}, {day.year}"
