"""The steps of a page that readers follow: the files to save, the commands to run, what they print.

- A block of code after a line that ends with a file's name is that file.
- A block `sh` is run in the folder; `sh background` goes on in a terminal of its own; `sh checkout`
  is about the checkout itself.
- A block `text` is what the commands before it print: each line somewhere in it, `…` for anything.
- A comment `<!-- stop: headgate worker -->` is what a reader does with Ctrl-C.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

_BLOCK = re.compile(
    r"<!-- stop: (?P<stop>.+?) -->|"
    r"(?P<before>[^\n]*)\n\n```(?P<info>[^\n]+)\n(?P<text>.*?)```(?=\n)",
    re.DOTALL,
)
_NAMED = re.compile(r"`([\w./-]+\.\w+)`:$")


class Kind(StrEnum):
    """What to do with a step."""

    FILE = "file"
    RUN = "run"
    START = "start"
    STOP = "stop"
    CHECKOUT = "checkout"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a file with its text, or commands with what they print."""

    kind: Kind
    text: str
    name: str = ""
    prints: str = ""


_KINDS = {"sh": Kind.RUN, "sh background": Kind.START, "sh checkout": Kind.CHECKOUT}


def steps(page: str) -> Sequence[Step]:
    """The steps of a page, in order."""
    found: list[Step] = []
    for step in _blocks(page):
        if step.kind is Kind.RUN and not step.text:
            found[-1] = msgspec.structs.replace(found[-1], prints=step.prints)
        else:
            found.append(step)
    fences = len(re.findall(r"(?m)^```", page))
    blocks = [step for step in _blocks(page) if step.kind is not Kind.STOP]
    assert fences == 2 * len(blocks), (
        "a block is not separated by blank lines from what surrounds it"
    )
    return found


def _blocks(page: str) -> Iterator[Step]:
    for block in _BLOCK.finditer(page):
        info, text = block["info"], block["text"]
        if block["stop"]:
            yield Step(kind=Kind.STOP, text=block["stop"])
        elif info == "text":
            yield Step(kind=Kind.RUN, text="", prints=text)
        elif info in _KINDS:
            yield Step(kind=_KINDS[info], text=text)
        else:
            named = _NAMED.search(block["before"])
            assert named is not None, f"a block of {info} without a file's name before it:\n{text}"
            yield Step(kind=Kind.FILE, text=text, name=named[1])


def is_printed(expected: str, printed: str) -> bool:
    """Whether each expected line is printed, in that order; blanks count as one blank."""
    rest = [_flat(line) for line in printed.splitlines()]
    for line in filter(None, map(_flat, expected.splitlines())):
        pattern = re.compile(".*".join(re.escape(part) for part in re.split(r" ?… ?", line)))
        while rest and not pattern.search(rest[0]):
            rest.pop(0)
        if not rest:
            return False
        rest.pop(0)
    return True


def _flat(line: str) -> str:
    return " ".join(line.split())
