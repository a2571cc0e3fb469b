"""`headgate job submit --file`: submit the jobs of a file of JSON Lines, however many there are.

A batch of lines is read, and its jobs are stored in one transaction; no more than a batch is in
memory. Every line has a result. One that is wrong is refused, and stops no other.
"""

import asyncio
import re
import signal
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import IO

import msgspec

from headgate.app import App
from headgate.base.errors import HeadgateError, InvalidInput
from headgate.flow.jobs.submit import OPTIONS_BYTES_MAX, JobRequest
from headgate.flow.jobs.submit_many import BATCH
from headgate.ports.jobs.submission import SubmitOutcome, SubmitStatus
from headgate.toolkit.commands.loading import FAILED, load_app, run
from headgate.toolkit.commands.outbox.screen import SendingScreen
from headgate.toolkit.commands.output import counts_text, messages, print_facts
from headgate.toolkit.commands.parsing import STDIN

#: A line that is longer is not read into memory.
LINE_BYTES_MAX = 2 * OPTIONS_BYTES_MAX
#: How many lines that are refused are told one by one.
TOLD_MAX = 20

#: What the decoder says of a value that is wrong, and where it is.
_WRONG = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<field>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")
_SUBMITTED = "submitted"


class OutcomeLine(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What has become of a line, as `--json` prints it."""

    line: int
    status: SubmitStatus
    job_id: str | None
    field: str | None = None
    error: dict[str, str] | None = None


def submit_file(path: str, *, app: str | None, json: bool) -> int:
    """Submit the jobs of the file, or of stdin for `-`; returns the exit code."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def use(opened: App) -> int:
        with _open(path) as file:
            return await _submit(opened, file, json=json)

    return run(loaded, use, json=json, creates=True)


# ---- reading -----------------------------------------------------------------------------------


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    try:
        opened = nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb")
    except OSError as error:
        raise InvalidInput("file", f"{path} cannot be read: {error.strerror}") from None
    with opened as file:
        yield file


def _batches(file: IO[bytes]) -> Iterator[Sequence[tuple[int, bytes]]]:
    """The lines that are not empty, with their numbers, a batch at a time."""
    lines = _lines(file)
    while True:
        with _interrupted_at_once():
            batch = list(islice(lines, BATCH))
        if not batch:
            return
        yield batch


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        rest = line
        while len(rest) > LINE_BYTES_MAX and not rest.endswith(b"\n"):
            rest = file.readline(LINE_BYTES_MAX + 1)
        if rest is not line or not line.isspace():
            yield number, line


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Let Ctrl-C end a read that waits for a pipe or a keyboard.

    The event loop would only cancel its task, which notices that after the read. Whoever started
    this program so that it ignores Ctrl-C is left alone.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # It came a moment before.
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_decoder = msgspec.json.Decoder(JobRequest)


def _decode(line: bytes) -> JobRequest:
    if len(line) > LINE_BYTES_MAX:
        raise InvalidInput("job", f"a line must have at most {LINE_BYTES_MAX:,} bytes")
    try:
        return _decoder.decode(line.removeprefix(BOM_UTF8))
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("job", f"a line must be one JSON object; {error}") from None


def _wrong_field(told: str) -> InvalidInput:
    if (missing := _MISSING.match(told)) is not None:
        return InvalidInput(missing["field"], "is missing")
    if (unknown := _UNKNOWN.match(told)) is not None:
        names = ", ".join(JobRequest.__struct_fields__)
        return InvalidInput(unknown["field"], f"is no field of a job; there are: {names}")
    wrong = _WRONG.fullmatch(told)
    assert wrong is not None
    return InvalidInput(wrong["field"] or "job", wrong["problem"])


# ---- submitting --------------------------------------------------------------------------------


async def _submit(app: App, file: IO[bytes], *, json: bool) -> int:
    """Submit the jobs in batches, and say what has become of each; returns the exit code."""
    counts = Counter({status.value: 0 for status in SubmitStatus})
    try:
        with SendingScreen(app.clock, {_SUBMITTED: None}, quiet=json) as screen:
            for batch in _batches(file):
                outcomes = await _submit_batch(app, [line for _, line in batch])
                _print_outcomes([number for number, _ in batch], outcomes, counts, json=json)
                there = {status: count for status, count in counts.items() if count}
                screen.show(_SUBMITTED, counts.total(), there)
    except (BrokenPipeError, SystemExit):
        # Nobody reads what it prints, as after `head`. A list is done then, and this is not.
        with suppress(SystemExit):
            _print_how_far(counts)
        return FAILED
    except BaseException:
        _print_how_far(counts)
        raise
    _print_summary(counts, json=json)
    return FAILED if counts[SubmitStatus.REFUSED] else 0


async def _submit_batch(app: App, lines: Sequence[bytes]) -> Sequence[SubmitOutcome]:
    """What has become of each line; one that is wrong is refused, and the others are stored."""
    outcomes: dict[int, SubmitOutcome] = {}
    requests: dict[int, JobRequest] = {}
    for place, line in enumerate(lines):
        try:
            request = _decode(line)
            app.jobs.validate(request)
            requests[place] = request
        except InvalidInput as error:
            refused = SubmitOutcome(SubmitStatus.REFUSED, None, field=error.field, error=error)
            outcomes[place] = refused
    submitted = await app.jobs.submit_many(requests.values())
    outcomes.update(zip(requests, submitted, strict=True))
    return [outcomes[place] for place in range(len(lines))]


def _print_how_far(counts: Counter[str]) -> None:
    # A batch that was under way may have been stored, too.
    messages.print(
        f"at least {counts.total():,} lines were carried out ({counts_text(counts)}). Where they "
        "have keys, the same file may be submitted again",
        markup=False,
    )


def _print_outcomes(
    numbers: Sequence[int],
    outcomes: Sequence[SubmitOutcome],
    counts: Counter[str],
    *,
    json: bool,
) -> None:
    """Print what is said of each line, and count it."""
    printed: list[bytes] = []
    for number, outcome in zip(numbers, outcomes, strict=True):
        counts[outcome.status.value] += 1
        if json:
            printed.append(_encoder.encode(_outcome_line(number, outcome)))
        elif outcome.error is not None and counts[SubmitStatus.REFUSED] <= TOLD_MAX:
            messages.print(
                f"line {number}: refused: {_refusal(outcome.field, outcome.error)}", markup=False
            )
    if printed:
        sys.stdout.write(b"\n".join(printed).decode() + "\n")
        sys.stdout.flush()


_encoder = msgspec.json.Encoder()


def _outcome_line(number: int, outcome: SubmitOutcome) -> OutcomeLine:
    error = outcome.error
    return OutcomeLine(
        line=number,
        status=outcome.status,
        job_id=outcome.job_id,
        field=outcome.field,
        error=None if error is None else {"type": type(error).__name__, "message": str(error)},
    )


def _refusal(field: str | None, error: HeadgateError) -> str:
    text = str(error)
    return text if field is None or text.startswith(f"{field}: ") else f"{field}: {text}"


def _print_summary(counts: Counter[str], *, json: bool) -> None:
    if json:
        messages.print(counts_text(counts), markup=False)
        return
    if counts[SubmitStatus.REFUSED] > TOLD_MAX:
        messages.print(f"the first {TOLD_MAX} that were refused are named above", markup=False)
    print_facts([(status, f"{count:,}") for status, count in counts.items()])
