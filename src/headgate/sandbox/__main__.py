"""Serve one sandbox on this machine: `python -m headgate.sandbox strava --port 8001`."""

import argparse
import sys

from headgate.base.errors import InvalidInput
from headgate.sandbox.registry import SANDBOXES
from headgate.sandbox.serving import serve


def main() -> int:
    """Serve until Ctrl-C; returns 2 if the sandbox cannot start, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m headgate.sandbox", description=__doc__)
    parser.add_argument("name", choices=sorted(SANDBOXES), help="which provider")
    parser.add_argument("--port", type=int, default=8001, help="0 picks a free one")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds give equal data")
    parser.add_argument("--users", "--athletes", type=int, default=1, help="how many people")
    parser.add_argument(
        "--records", "--activities", type=int, default=700, help="how much each of them has"
    )
    asked = parser.parse_args()
    try:
        serve(asked.name, asked.port, seed=asked.seed, users=asked.users, records=asked.records)
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
