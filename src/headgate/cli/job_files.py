"""`headgate job submit --file`: submit the jobs of a file of JSON Lines, however many there are.

The file is read twice. The first time every line is validated, and if one is wrong, nothing is
written. The second time the jobs are stored, a batch in one transaction. What can be read only
once, such as a pipe, is kept in a temporary file meanwhile. At no time is more than a batch of
lines in memory.
"""

import re
import signal
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import msgspec

from headgate.app import App
from headgate.base.errors import HeadgateError, InvalidInput
from headgate.flow.submit import OPTIONS_BYTES_MAX, JobRequest
from headgate.flow.submit_many import BATCH
from headgate.ports.submission import SubmitOutcome, SubmitStatus
from headgate.toolkit.commands.loading import FAILED, USAGE, load_app, report_error, run
from headgate.toolkit.commands.output import amount, counts_text, messages, print_facts
from headgate.toolkit.commands.reading import STDIN
from headgate.toolkit.commands.sending_screen import SendingScreen

#: A line that is longer is not read into memory.
LINE_BYTES_MAX = 2 * OPTIONS_BYTES_MAX
#: How many lines that are wrong, or refused, are told one by one.
TOLD_MAX = 20

#: What the decoder says of a value that is wrong, and where it is.
_WRONG = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<field>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")
_CHECKING, _SUBMITTING = "checked", "submitted"


class OutcomeLine(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What has become of a line, as `--json` prints it."""

    line: int
    status: SubmitStatus
    job_id: str | None
    field: str | None = None
    error: dict[str, str] | None = None


class _Request(NamedTuple):
    """A line of the file that is a valid request."""

    line: int
    request: JobRequest


def submit_file(path: str, *, app: str | None, json: bool) -> int:
    """Submit the jobs of the file, or of stdin for `-`; returns the exit code."""
    loaded = load_app(app, None, needs_syncs=True, json=json)

    async def use(opened: App) -> int:
        with _open(path) as (first, again):
            lines = await _validate(opened, first, again, json=json)
            if lines is None:
                return USAGE
            again.seek(0)
            return await _submit(opened, again, lines, json=json)

    return run(loaded, use, json=json, creates=True)


# ---- reading -----------------------------------------------------------------------------------


@contextmanager
def _open(path: str) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file to read first, and the one to read again; the two are one if it has a beginning."""
    with ExitStack() as opened:
        try:
            file = sys.stdin.buffer if path == STDIN else opened.enter_context(open(path, "rb"))
        except OSError as error:
            raise InvalidInput("file", f"{path} cannot be read: {error.strerror}") from None
        in_place = path != STDIN and file.seekable()
        yield file, file if in_place else opened.enter_context(TemporaryFile())


def _lines(file: IO[bytes], kept: IO[bytes] | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers; each is also written to `kept`."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if kept is not None:
            kept.write(line)
        if len(line) > LINE_BYTES_MAX:
            problem = f"is longer than {LINE_BYTES_MAX:,} bytes. Nothing was submitted"
            raise InvalidInput(f"line {number}", problem)
        if not line.isspace():
            yield number, line


_decoder = msgspec.json.Decoder(JobRequest)


def _read_request(app: App, number: int, line: bytes) -> _Request:
    """The request of a line; InvalidInput names the line and the field."""
    try:
        request = _decode(line)
        app.jobs.validate(request)
        return _Request(number, request)
    except InvalidInput as error:
        raise InvalidInput(f"line {number}", f"{error.field}: {error.problem}") from None


def _decode(line: bytes) -> JobRequest:
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


# ---- validating --------------------------------------------------------------------------------


async def _validate(app: App, file: IO[bytes], again: IO[bytes], *, json: bool) -> int | None:
    """How many requests the file has; None if one is wrong, which is told."""
    valid, wrong = 0, 0
    with _interrupted_at_once(), SendingScreen(app.clock, {_CHECKING: None}, quiet=json) as screen:
        for number, line in _lines(file, None if again is file else again):
            try:
                _read_request(app, number, line)
                valid += 1
            except InvalidInput as error:
                wrong += 1
                if wrong <= TOLD_MAX:
                    report_error(error, json=json)
            if (valid + wrong) % BATCH == 0:
                screen.show(_CHECKING, valid + wrong)
                # Lets the tasks of the application have a turn.
                await app.clock.sleep(0)
    if wrong:
        more = f"; the first {TOLD_MAX} are named" if wrong > TOLD_MAX else ""
        messages.print(
            f"{amount(wrong, 'line is', 'lines are')} wrong{more}. Nothing was submitted: correct "
            "the file and submit it again",
            markup=False,
        )
        return None
    return valid


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Let Ctrl-C end a read that waits for a pipe or a keyboard, when nothing is written yet.

    The event loop would only cancel its task, which notices that after the read. Whoever started
    this program so that it ignores Ctrl-C is left alone.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---- submitting --------------------------------------------------------------------------------


async def _submit(app: App, file: IO[bytes], total: int, *, json: bool) -> int:
    """Submit the requests in batches, and say what has become of them; returns the exit code."""
    counts = Counter({status.value: 0 for status in SubmitStatus})
    try:
        with SendingScreen(app.clock, {_SUBMITTING: total}, quiet=json) as screen:
            for batch in _batches(app, file, total):
                outcomes = await app.jobs.submit_many([each.request for each in batch])
                _print_outcomes(batch, outcomes, counts, json=json)
                there = {status: count for status, count in counts.items() if count}
                screen.show(_SUBMITTING, counts.total(), there)
    except (BrokenPipeError, SystemExit):
        # Nobody reads what it prints, as after `head`. A list is done then, and this is not.
        with suppress(SystemExit):
            _print_how_far(counts, total)
        return FAILED
    except BaseException:
        _print_how_far(counts, total)
        raise
    _print_summary(counts, json=json)
    return FAILED if counts[SubmitStatus.REFUSED] else 0


def _print_how_far(counts: Counter[str], total: int) -> None:
    # A batch that was under way may have been stored, too.
    messages.print(
        f"at least {counts.total():,} of {total:,} requests were carried out "
        f"({counts_text(counts)}). Where they have keys, the same file may be submitted again",
        markup=False,
    )


def _batches(app: App, file: IO[bytes], total: int) -> Iterator[Sequence[_Request]]:
    """The lines that were validated, and none that were added to the file since."""
    lines = islice(_lines(file), total)
    while batch := [_read_request(app, number, line) for number, line in islice(lines, BATCH)]:
        yield batch


def _print_outcomes(
    batch: Sequence[_Request],
    outcomes: Sequence[SubmitOutcome],
    counts: Counter[str],
    *,
    json: bool,
) -> None:
    """Print what is said of each line, and count it."""
    printed: list[bytes] = []
    for (number, _), outcome in zip(batch, outcomes, strict=True):
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
