"""Describes what `import headgate` offers, from its sources: signatures, docstrings, comments."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

SOURCE = Path("src")
#: The public modules: everything else may change without notice.
MODULES = (
    "headgate",
    "headgate.errors",
    "headgate.types",
    "headgate.connectors",
    "headgate.connectors.fitbit",
    "headgate.connectors.foursquare",
    "headgate.connectors.roam",
    "headgate.connectors.strava",
    "headgate.connectors.vectors",
    "headgate.toolkit",
    "headgate.toolkit.api",
    "headgate.toolkit.commands",
    "headgate.toolkit.pages",
    "headgate.toolkit.tables",
)
_INTRODUCTION = """\
# The Python API

Generated from the sources by `make reference`; edit the docstrings there, not this page. These are
the names in `headgate.__all__`: everything else may change without notice. [The
tutorial](../tutorial/first-connector.md) is the place to begin.
"""
#: Bases that say nothing to who uses a class.
_PLAIN_BASES = {"Protocol", "msgspec.Struct", "Exception"}
#: The chapters by where a name is defined; the first prefix that fits counts.
CHAPTERS = {
    "headgate.app": "The application",
    "headgate.configured": "The application",
    "headgate.base.errors": "Errors",
    "headgate.connectors": "Connectors",
    "headgate.ports.connector": "Connectors",
    "headgate.ports.transport": "Connectors",
    "headgate.ports.auth": "Connectors",
    "headgate.flow": "What an application can do",
    "headgate.system": "Systems",
    "headgate.ports.record_table": "Systems",
    "headgate.loops": "Workers",
    "headgate.policy": "Policies",
    "headgate.model": "Values",
    "headgate.ports": "Values",
    "headgate.base": "Helpers",
    "headgate": "Helpers",
}


def page() -> str:
    """The whole page, as it should be."""
    module = griffe.load("headgate", search_paths=[SOURCE], resolve_aliases=True)
    assert isinstance(module, griffe.Module) and module.exports is not None
    chapters: dict[str, list[str]] = defaultdict(list)
    for name in sorted(map(str, module.exports), key=str.lower):
        chapters[_chapter(_target(module[name]))].append(name)
    parts = [_INTRODUCTION]
    for title in dict.fromkeys(CHAPTERS.values()):
        parts.append(f"## {title}\n")
        for name in chapters.pop(title, []):
            parts += [f"### `{name}`\n", *_described(name, _target(module[name]))]
    assert not chapters, f"no chapter for {sorted(chapters)}"
    return "\n".join(parts).rstrip() + "\n"


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _chapter(found: griffe.Object) -> str:
    path = found.path
    prefixes = (each for each in CHAPTERS if path == each or path.startswith(f"{each}."))
    return CHAPTERS[next(prefixes)]


def _described(name: str, found: griffe.Object) -> Iterator[str]:
    if isinstance(found, griffe.Class):
        yield from _class(name, found)
    elif isinstance(found, griffe.Function):
        yield f"```python\n{_signature(found)}\n```\n"
        yield f"{_prose(found)}\n"
    else:
        assert isinstance(found, griffe.Attribute)
        value = str(found.value).replace("'", '"')
        yield f"```python\n{name} = {value}\n```\n"
        said = _prose(found) or _comment(found)
        yield from [f"{said}\n"] if said else []


def _class(name: str, found: griffe.Class) -> Iterator[str]:
    bases = ", ".join(str(base) for base in found.bases if str(base) not in _PLAIN_BASES)
    yield f"```python\nclass {name}{f'({bases})' if bases else ''}\n```\n"
    yield f"{_prose(found)}\n"
    public = [each for each in _members(found) if not each.name.startswith("_")]
    fields = [each for each in public if isinstance(each, griffe.Attribute) and _is_field(each)]
    if fields:
        rows = [
            f"| `{_field(each)}` | {_cell(_comment(each) or _prose(each))} |" for each in fields
        ]
        yield "\n".join(["| field | what it is |", "|---|---|", *rows, ""])
    methods = [each for each in public if isinstance(each, griffe.Function)]
    for each in (*_constructor(found), *methods):
        yield f"```python\n{_signature(each, name)}\n```\n"
        yield f"{_prose(each)}\n"


def _constructor(found: griffe.Class) -> Iterator[griffe.Function]:
    """Its own constructor, or that of a base; all errors have the same one."""
    start = found.members.get("__init__")
    if start is None and not found.path.startswith("headgate.base.errors."):
        start = found.inherited_members.get("__init__")
    if start is not None and isinstance(target := _target(start), griffe.Function):
        yield target


def _members(found: griffe.Class) -> Iterable[griffe.Object]:
    """The members in the order of the source; what a base of ours brings comes last."""
    inherited = [
        _target(each)
        for each in found.inherited_members.values()
        if each.final_target.path.startswith("headgate.")
    ]
    return [
        *(each for each in found.members.values() if isinstance(each, griffe.Object)),
        *inherited,
    ]


def _is_field(found: griffe.Attribute) -> bool:
    """Whether it is of an instance: declared in the class, set by `__init__`, or a property."""
    return bool({"instance-attribute", "class-attribute", "property"} & found.labels)


def _field(found: griffe.Attribute) -> str:
    text = found.name
    if found.annotation is not None:
        text += f": {found.annotation}"
    if found.value is not None and "property" not in found.labels and _is_short(found):
        text += f" = {found.value}"
    return " ".join(text.split()).replace("|", "\\|")


def _is_short(found: griffe.Attribute) -> bool:
    """Whether its value tells a reader something, as that of `self.jobs = Jobs(…)` does not."""
    return "class-attribute" in found.labels and len(str(found.value)) <= 40


def _signature(found: griffe.Function, owner: str = "") -> str:
    text = found.signature(name=owner if found.name == "__init__" else found.name)
    if found.name == "__init__":
        text = re.sub(r" -> None$", "", text)
    elif "async" in found.labels:
        text = f"async {text}"
    return text if len(text) <= 100 else _broken(text)


def _broken(text: str) -> str:
    """A long signature with a line for each parameter."""
    start = text.index("(") + 1
    depth, parts, begin = 0, [], start
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            if depth == 0:
                parts.append(text[begin:at])
                return (
                    text[:start]
                    + "".join(f"\n    {each.strip()}," for each in parts)
                    + "\n"
                    + text[at:]
                )
            depth -= 1
        elif text[at] == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    raise AssertionError(f"a signature without an end: {text}")


def _prose(found: griffe.Object) -> str:
    return found.docstring.value.strip() if found.docstring else ""


def _comment(found: griffe.Object) -> str:
    """The `#:` comment before an attribute."""
    assert found.lineno is not None and isinstance(found.filepath, Path)
    lines = found.lines_collection[found.filepath]
    said: list[str] = []
    for line in reversed(lines[: found.lineno - 1]):
        if not line.strip().startswith("#:"):
            break
        said.insert(0, line.strip().removeprefix("#:").strip())
    return " ".join(said)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
