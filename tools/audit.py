"""Audits what is installed with Headgate: licences, a bill of materials, known vulnerabilities.

The licences are checked by the tests too, because that needs no network. The other two are programs
that `uv` fetches in a fixed version; `pip-audit` asks the vulnerability service of PyPI.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
BOM = ROOT / "dist" / "headgate.cdx.json"
PIP_AUDIT, CYCLONEDX = "pip-audit==2.10.1", "cyclonedx-bom==7.5.0"

OURS = {"headgate", "headgate-sandbox"}
#: Licences whose terms an application that uses Headgate meets by naming them.
ALLOWED = re.compile(
    r"MIT|Apache|BSD|ISC|MPL|Mozilla|PSF|Python Software Foundation|Zlib|CC0|Unlicense", re.I
)
#: Licences that ask more of whoever passes the software on.
COPYLEFT = re.compile(r"\bA?GPL|\bLGPL|General Public License|SSPL|BUSL|Commons Clause", re.I)


def main() -> int:
    """Print what is wrong; 0 if nothing is."""
    python = Path(sys.executable)
    runtime = sorted(installed_with("headgate"))
    print(f"==> licences of {len(runtime)} packages")
    problems = licence_problems(runtime)
    print("\n".join(problems) or "all may be used")
    BOM.parent.mkdir(exist_ok=True)
    listed = BOM.parent / "audited.txt"
    pins = [f"{name}=={distribution(name).version}\n" for name in runtime]
    listed.write_text("".join(pins), encoding="utf-8")
    print(f"==> bill of materials: {BOM.relative_to(ROOT)}")
    made = _run(python, CYCLONEDX, "cyclonedx-py", "requirements", str(listed), "-o", str(BOM))
    print("==> known vulnerabilities")
    # Strict: a package that the service does not know was not audited, so it is no success.
    asked = ("pip-audit", "--strict", "--no-deps", "--disable-pip", "-r", str(listed))
    audited = _run(python, PIP_AUDIT, *asked)
    return 1 if problems or made or audited else 0


def _run(python: Path, package: str, *command: str) -> int:
    return subprocess.run([str(python.parent / "uvx"), "--from", package, *command]).returncode


def installed_with(name: str, extras: frozenset[str] | None = None) -> set[str]:
    """The packages of others that come with `name` and all of its extras.

    Those of an extra that is not installed here, or of another platform, are left out too.
    """
    found: set[str] = set()
    ahead = [(name, extras)]
    while ahead:
        package, wanted = ahead.pop()
        for each, its_extras in _requirements(package, wanted):
            if each not in found:
                found.add(each)
                ahead.append((each, its_extras))
    return found - OURS


def _requirements(
    package: str, extras: frozenset[str] | None
) -> Iterator[tuple[str, frozenset[str]]]:
    """What a package requires; with all extras if `extras` is None."""
    known = distribution(package)
    chosen = known.metadata.get_all("Provides-Extra") or [] if extras is None else extras
    for line in known.requires or []:
        required = Requirement(line)
        marker = required.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in ("", *chosen)):
            try:
                distribution(required.name)
            except PackageNotFoundError:
                continue
            yield canonicalize_name(required.name), frozenset(required.extras)


def licence_problems(packages: list[str]) -> list[str]:
    """A line for each package whose licence is not one of those that may be used."""
    found = {name: licence_of(distribution(name)) for name in packages}
    return [
        f"{name}: {licence or 'names no licence'}"
        for name, licence in found.items()
        if not ALLOWED.search(licence) or COPYLEFT.search(licence)
    ]


def licence_of(package: Distribution) -> str:
    """The licence as the package names it: its expression, or else its classifiers or its text."""
    fields = {
        name: package.metadata.get_all(name) or []
        for name in ("License-Expression", "Classifier", "License")
    }
    if fields["License-Expression"]:
        return str(fields["License-Expression"][0])
    named = [each.rpartition(" :: ")[2] for each in fields["Classifier"] if "License ::" in each]
    texts = [each.partition("\n")[0] for each in fields["License"]]
    return "; ".join([*named, *texts]).strip("; ")


if __name__ == "__main__":
    sys.exit(main())
