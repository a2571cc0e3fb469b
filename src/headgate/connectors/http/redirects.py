"""`RedirectMemory` remembers where permanent redirects lead, so that the detour is made once.

A provider that spreads its accounts over machines redirects all requests for an account to the same
machine. A redirect is therefore remembered for a part of the API, which `Redirects.remember`
names, and not for one address.
"""

from collections import OrderedDict
from fnmatch import fnmatchcase

#: The statuses of a redirect that holds for later requests too.
PERMANENT = frozenset({301, 308})
#: The parts of one API that are remembered; beyond that, the one unused for longest is forgotten.
PARTS_MAX = 10_000


class RedirectMemory:
    """Remembers the redirects of one API, for one process."""

    def __init__(self, base_url: str, pattern: str, parts_max: int = PARTS_MAX) -> None:
        """Remember a redirect for each part of the API that `pattern` matches."""
        self._base_url = base_url.rstrip("/")
        self._names = pattern.strip("/").split("/")
        self._parts_max = parts_max
        self._moved: OrderedDict[str, str] = OrderedDict()

    def find(self, url: str) -> str:
        """Return where a request for `url` goes: the remembered address, or `url` itself."""
        part = self._part_of(url)
        moved = None if part is None else self._moved.get(part)
        if part is None or moved is None:
            return url
        self._moved.move_to_end(part)
        return moved + url[len(part) :]

    def learn(self, url: str, location: str) -> None:
        """Remember that `url` is redirected to `location`, if the rest of the path is the same."""
        part = self._part_of(url)
        if part is None:
            return
        rest = url[len(part) :]
        if not location.endswith(rest):
            return
        self._moved[part] = location[: len(location) - len(rest)]
        self._moved.move_to_end(part)
        if len(self._moved) > self._parts_max:
            self._moved.popitem(last=False)

    def forget(self, url: str) -> None:
        """Ask at the known address again, the next time that a request goes where `url` does."""
        part = self._part_of(url)
        if part is not None:
            self._moved.pop(part, None)

    def _part_of(self, url: str) -> str | None:
        """The beginning of `url` that the pattern matches; None if it does not match."""
        path, _, _ = url.partition("?")
        if not path.startswith(f"{self._base_url}/"):
            return None
        names = path[len(self._base_url) + 1 :].split("/")[: len(self._names)]
        if len(names) < len(self._names) or not all(map(fnmatchcase, names, self._names)):
            return None
        return "/".join([self._base_url, *names])
