"""What drains have done, for people and for programs: the final counts, and what to do next."""

from collections.abc import Mapping, Sequence

import msgspec

from headgate.base.encoding import JsonObject
from headgate.base.times import format_time
from headgate.flow.outbox.attempts import DrainResult
from headgate.ports.outbox import Backlog
from headgate.toolkit.commands.output import amount, counts_text, messages, out, print_json


def print_results(
    results: Sequence[DrainResult],
    backlogs: Mapping[str, Backlog] | None = None,
    *,
    interrupted: bool = False,
    json: bool = False,
) -> None:
    """Print what was sent to each target, and what to do about the rest.

    `backlogs` has what was left behind, by target, where that is known.
    """
    left = backlogs or {}
    if json:
        data = [result_document(each, left.get(each.target)) for each in results]
        print_json({"data": data, "interrupted": interrupted})
        return
    for each in results:
        given_back = {"given back": each.released} if each.released else {}
        counts = {"processed": each.processed, **result_counts(each), **given_back}
        out.print(f"{each.target}: {counts_text(counts)}", markup=False)
        for line in [*_advice(each), *_left_behind(each.target, left.get(each.target))]:
            messages.print(line, markup=False)
    if interrupted:
        messages.print("interrupted; what was not sent waits as before")


def result_document(result: DrainResult, backlog: Backlog | None = None) -> JsonObject:
    """The document of a drain, with what it left behind, where that is known."""
    document = {"processed": result.processed, **msgspec.to_builtins(result)}
    if backlog is None:
        return document
    return {
        **document,
        "waiting": backlog.waiting,
        "next_attempt_at": msgspec.to_builtins(backlog.next_attempt_at),
        "claimed": backlog.claimed,
    }


def result_counts(result: DrainResult) -> dict[str, int]:
    """How many deliveries of a drain were accepted, have failed, and can never be accepted."""
    return {"sent": result.sent, "failed": result.failed, "dead": result.dead}


def _advice(result: DrainResult) -> list[str]:
    lines = []
    if result.stopped is not None:
        lines.append(
            f"{result.target} has stopped: {result.stopped}. Its deliveries wait, and none is "
            "lost: correct its URL or its key, and try again"
        )
    elif result.rest_s is not None:
        lines.append(
            f"{result.target} is down or busy: a worker sends the rest, or run this again later"
        )
    for state, count in (("failed", result.failed), ("dead", result.dead)):
        if count:
            lines.append(
                f"see why: headgate outbox list --env {result.target} --state {state}",
            )
    return lines


def _left_behind(target: str, backlog: Backlog | None) -> list[str]:
    lines = []
    if backlog is not None and backlog.next_attempt_at is not None:
        waits = amount(backlog.waiting, "delivery waits", "deliveries wait")
        first = format_time(backlog.next_attempt_at)
        lines.append(f"{target}: {waits} for a later attempt, the first one at {first}")
        lines += [
            f"do not wait: headgate outbox retry --state {state.value} --env {target}"
            for state in sorted(backlog.later)
        ]
    if backlog is not None and backlog.claimed:
        has = amount(backlog.claimed, "delivery is", "deliveries are")
        lines.append(f"{target}: {has} claimed by another worker right now")
    return lines
