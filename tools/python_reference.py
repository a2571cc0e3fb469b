"""Describes the public modules from their sources: signatures, docstrings, comments."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

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
    "headgate.testing",
    "headgate.toolkit",
    "headgate.toolkit.api",
    "headgate.toolkit.commands",
    "headgate.toolkit.pages",
    "headgate.toolkit.tables",
)
INDEX = "python-api.md"
_INTRODUCTION = """\
# The Python API

Generated from the sources by `make reference`; edit the docstrings there, not these pages. The
names on them are public: everything else may change without notice. [The
tutorial](../tutorial/first-connector.md) is the place to begin.
"""
#: Bases that say nothing to who uses a class.
_PLAIN_BASES = {"Protocol", "msgspec.Struct", "View", "Exception"}
#: What an application never makes itself.
_GIVEN = "headgate.types"


def pages() -> Mapping[str, str]:
    """All pages by their file, as they should be: one a module, and the list of them."""
    package = griffe.load("headgate", search_paths=[SOURCE], resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    found = {name: _module(package, name) for name in MODULES}
    rows = [
        f"| [`{name}`]({_file(name)}) | {_cell(_prose(module))} | {len(_exports(module))} |"
        for name, module in found.items()
    ]
    index = [_INTRODUCTION, "| module | what is in it | names |", "|---|---|---|", *rows, ""]
    each_page = {_file(name): _page(name, module) for name, module in found.items()}
    return {INDEX: "\n".join(index), **each_page}


def _module(package: griffe.Module, name: str) -> griffe.Module:
    found = package if name == package.path else package[name.removeprefix(f"{package.path}.")]
    assert isinstance(found, griffe.Module)
    return found


def _file(module: str) -> str:
    return f"python/{module.replace('.', '-')}.md"


def _exports(module: griffe.Module) -> list[str]:
    assert module.exports is not None
    return sorted(map(str, module.exports), key=str.lower)


def _page(name: str, module: griffe.Module) -> str:
    names = _exports(module)
    parts = [
        f"# `{name}`\n",
        f"{_prose(module)}\n",
        " · ".join(f"[`{each}`](#{each.lower()})" for each in names) + "\n",
    ]
    for each in names:
        described = _described(each, _target(module[each]), made=name != _GIVEN)
        parts += [f"## `{each}`\n", *described]
    return "\n".join(parts).rstrip() + "\n"


def _target(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _described(name: str, found: griffe.Object, *, made: bool) -> Iterator[str]:
    if isinstance(found, griffe.Class):
        yield from _class(name, found, made=made)
    elif isinstance(found, griffe.Function):
        yield f"```python\n{_signature(found)}\n```\n"
        yield f"{_prose(found)}\n"
    else:
        assert isinstance(found, griffe.Attribute)
        # As it is written, unless it is long and here by another name.
        if name == found.name:
            yield f"```python\n{found.source}\n```\n"
        said = _prose(found) or _comment(found)
        yield from [f"{said}\n"] if said else []


def _class(name: str, found: griffe.Class, *, made: bool) -> Iterator[str]:
    bases = ", ".join(str(base) for base in found.bases if str(base) not in _PLAIN_BASES)
    yield f"```python\nclass {name}{f'({bases})' if bases else ''}\n```\n"
    yield f"{_prose(found)}\n"
    public = [each for each in _members(found) if not each.name.startswith("_")]
    fields = [each for each in public if isinstance(each, griffe.Attribute) and _is_field(each)]
    if fields:
        rows = [
            f"| `{_field(each)}` | {_cell(_comment(each) or _prose(each) or _meta(each))} |"
            for each in fields
        ]
        yield _table("field", rows)
    methods = [each for each in public if isinstance(each, griffe.Function)]
    for each in (*(_constructor(found) if made else ()), *methods):
        yield f"```python\n{_signature(each, name)}\n```\n"
        yield from _text(each)
    for options in dict.fromkeys(taken for each in methods for taken in _unpacked(each)):
        yield _table("option", _option_rows(options))


def _table(what: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {what} | what it is |", "|---|---|", *rows, ""])


def _text(found: griffe.Function) -> Iterator[str]:
    """The docstring; what it says of parameters, and the options among these, as a table."""
    sections = found.docstring.parse("google", warnings=False) if found.docstring else []
    for section in sections:
        if isinstance(section, griffe.DocstringSectionText):
            yield f"{section.value}\n"
        elif isinstance(section, griffe.DocstringSectionParameters):
            rows = [
                f"| `{_parameter(found.parameters[each.name])}` | {_cell(each.description)} |"
                for each in section.value
                if not each.name.startswith("*")
            ]
            rows += [row for each in _unpacked(found) for row in _option_rows(each)]
            yield _table("parameter", rows)


def _parameter(found: griffe.Parameter) -> str:
    default = "" if found.default is None else f" = {found.default}"
    return f"{found.name}: {found.annotation}{default}".replace("|", "\\|")


def _unpacked(found: griffe.Function) -> Iterator[griffe.Class]:
    """The options that a function takes by `**options: Unpack[…]`."""
    for each in found.parameters:
        hint = each.annotation
        if isinstance(hint, griffe.ExprSubscript) and str(hint.left) == "Unpack":
            assert isinstance(hint.slice, griffe.Expr)
            options = found.modules_collection[hint.slice.canonical_path]
            assert isinstance(options, griffe.Class)
            yield options


def _option_rows(options: griffe.Class) -> list[str]:
    return [
        f"| `{_field(each)}` | {_cell(_comment(each))} |"
        for each in _members(options)
        if isinstance(each, griffe.Attribute)
    ]


def _constructor(found: griffe.Class) -> Iterator[griffe.Function]:
    """Its own constructor, or that of a base; all errors have the same one."""
    start = found.members.get("__init__")
    if start is None and not found.path.startswith("headgate.base.errors."):
        start = found.inherited_members.get("__init__")
    if start is not None and isinstance(target := _target(start), griffe.Function):
        yield target


def _members(found: griffe.Class) -> Iterable[griffe.Object]:
    """The members in the order of the source; what a base of ours brings comes last.

    What all errors have is described where it is defined.
    """
    inherited = [
        _target(each)
        for each in found.inherited_members.values()
        if each.final_target.path.startswith("headgate.")
        and not each.final_target.path.startswith("headgate.base.errors.")
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
        text += f": {_annotated(found)[0]}"
    if found.value is not None and "property" not in found.labels and _is_short(found):
        text += f" = {found.value}"
    return " ".join(text.split()).replace("|", "\\|")


def _meta(found: griffe.Attribute) -> str:
    """The description in its annotation, as the API's document has it."""
    told = [each.value for each in _annotated(found)[1:] if each.name == "description"]
    return "".join(str(ast.literal_eval(str(each))) for each in told)


def _annotated(found: griffe.Attribute) -> list[Any]:
    """Its type, and what `Annotated` says of it."""
    hint = found.annotation
    if not isinstance(hint, griffe.ExprSubscript) or str(hint.left) != "Annotated":
        return [hint]
    parts: Any = hint.slice
    kind, *_, meta = parts.elements
    return [kind, *meta.arguments]


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
