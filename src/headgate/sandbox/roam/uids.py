"""Uids that look like chance and yet lead back to their number, so that nothing has to be kept."""

from datetime import UTC, date, datetime

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LENGTH = 9
_SIZE: int = len(_LETTERS) ** _LENGTH
#: Has no factor in common with the size, so that multiplying by it can be undone.
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
    """The number that a uid stands for; None if it is not of ours."""
    if len(uid) != _LENGTH or not all(letter in _LETTERS for letter in uid):
        return None
    rest = 0
    for letter in reversed(uid):
        rest = rest * len(_LETTERS) + _LETTERS.index(letter)
    return rest * _BACK % _SIZE


def daily_uid(day: date) -> str:
    """The uid of a daily note: month, day, year."""
    return day.strftime("%m-%d-%Y")


def day_of(uid: str) -> date | None:
    """The day of a daily note; None if the uid is not one's."""
    try:
        day = datetime.strptime(uid, "%m-%d-%Y").replace(tzinfo=UTC).date()
    except ValueError:
        return None
    # Python reads 1-5-2026 as well, but that is nobody's uid.
    return day if daily_uid(day) == uid else None


def daily_title(day: date) -> str:
    """Such as `January 5th, 2026`."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if 11 <= day.day <= 13 else endings.get(day.day % 10, "th")
    return f"{day:%B} {day.day}{ending}, {day.year}"
