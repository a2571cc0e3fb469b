"""Builds the zip of the functions: Headgate's wheel and the locked packages, for one Python.

The same wheel and lock give the same zip, byte for byte.
"""

import compileall
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode

import msgspec

from headgate.base.errors import HeadgateError, InvalidInput

#: The packages that the functions need, with hashes; `make lock` writes it.
LOCK = Path(__file__).with_name("requirements.lock")
#: What AWS allows for a function, unzipped.
UNZIPPED_BYTES_MAX = 250 * 1024 * 1024
#: The machines of wheels, by architecture.
PLATFORMS = {"arm64": "aarch64", "x86_64": "x86_64"}
#: The wheels that run there, by version of Python: 3.11 runs on Amazon Linux 2, whose C library
#: is 2.26, and the others on Amazon Linux 2023 with 2.34.
_OLD = ("manylinux_2_17", "manylinux2014")
_NEW = ("manylinux_2_28", *_OLD)
PYTHONS = {"3.11": _OLD, "3.12": _NEW, "3.13": _NEW}
#: The services of AWS that are called; of the others botocore's descriptions are left out.
SERVICES = frozenset({"dynamodb", "kms", "secretsmanager", "sqs", "sts"})
#: What an installer notes about itself, which no function needs.
_NOTES = frozenset({"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"})
_INSTALL_S_MAX = 600.0
#: The time of every file in the zip: the first that a zip can name.
_TIME = (1980, 1, 1, 0, 0, 0)


class PackageFailed(HeadgateError):
    """The packages could not be installed."""


class Package(msgspec.Struct, frozen=True):
    """A zip that was built."""

    path: Path
    files: int
    zipped_bytes: int
    unzipped_bytes: int
    #: Whether modules are compiled, which spares every cold start that work.
    compiled: bool


def build_package(
    output: Path, wheels: Sequence[str], *, python: str, architecture: str, lock: Path = LOCK
) -> Package:
    """Build the zip from wheels, of Headgate and of systems of one's own, and the lock.

    Raises InvalidInput if Headgate's is missing or the zip is larger than AWS allows, and
    PackageFailed if an installer fails or the zip cannot be written.
    """
    _check_wheels(wheels)
    if architecture not in PLATFORMS:
        raise InvalidInput("architecture", f"must be one of {', '.join(PLATFORMS)}")
    if python not in PYTHONS:
        raise InvalidInput("python", f"must be one of {', '.join(PYTHONS)}")
    if output.is_dir():
        raise InvalidInput("output", f"{output} is a folder; name the zip in it")
    with tempfile.TemporaryDirectory(prefix="headgate-aws-") as folder:
        root = Path(folder) / "root"
        target = _target_options(python, architecture, root)
        _install([*target, "--require-hashes", "--requirement", str(lock)])
        _install([*target, *wheels])
        _prune(root)
        # Compiled code is of one version of Python alone.
        compiled = python == f"{sys.version_info.major}.{sys.version_info.minor}"
        if compiled:
            _compile(root)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        unzipped = sum(path.stat().st_size for path in files)
        if unzipped > UNZIPPED_BYTES_MAX:
            raise InvalidInput(
                "wheels", f"unzipped it is {unzipped:,} bytes, of at most {UNZIPPED_BYTES_MAX:,}"
            )
        try:
            _write_zip(output, root, files)
        except OSError as error:
            raise PackageFailed(f"{output} cannot be written: {error.strerror}") from error
    return Package(output, len(files), output.stat().st_size, unzipped, compiled)


def _check_wheels(wheels: Sequence[str]) -> None:
    """Refuse to ask an index for Headgate, where the name could be a stranger's."""
    for each in map(Path, wheels):
        if each.name.startswith("headgate-") and each.suffix == ".whl":
            if each.is_file():
                return
            raise InvalidInput("wheel", f"there is no file {each}")
    raise InvalidInput(
        "wheel",
        "name the wheel of Headgate, which is on no package index yet: build it in a checkout by "
        "`pip wheel --no-deps --wheel-dir dist .`, and name dist/headgate-….whl",
    )


def _target_options(python: str, architecture: str, root: Path) -> list[str]:
    """The beginning of the command that installs wheels of another machine into a folder."""
    machine = PLATFORMS[architecture]
    options = ["--target", str(root), "--python-version", python, "--only-binary", ":all:"]
    uv = Path(sys.executable).with_name("uv")
    found = str(uv) if uv.exists() else shutil.which("uv")
    if found is not None:
        platform = f"{machine}-{PYTHONS[python][0]}"
        own = [found, "pip", "install", "--quiet", "--no-deps", "--link-mode", "copy"]
        return [*own, "--python-platform", platform, *options]
    if find_spec("pip") is None:
        raise PackageFailed("neither uv nor pip is installed; install one of them")
    platforms = [f"--platform={each}_{machine}" for each in PYTHONS[python]]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    return [sys.executable, "-m", "pip", "install", *quiet, *platforms, *options]


def _install(command: Sequence[str]) -> None:
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise PackageFailed(f"installing took longer than {_INSTALL_S_MAX:g} s") from None
    if ended.returncode:
        raise PackageFailed(f"the packages cannot be installed: {ended.stderr.strip()}")


def _prune(root: Path) -> None:
    """Delete what no function needs, and what differs from one build to the next."""
    for path in _unneeded(root):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _unneeded(root: Path) -> list[Path]:
    data = root / "botocore" / "data"
    return [
        *(each for each in data.glob("*") if each.is_dir() and each.name not in SERVICES),
        *(each for each in root.glob("*.dist-info/*") if each.name in _NOTES),
        *root.glob("bin"),
        *root.glob(".lock"),
        *root.rglob("__pycache__"),
    ]


def _compile(root: Path) -> None:
    """Compile all modules; Lambda cannot store what a function compiles by itself."""
    compileall.compile_dir(
        root,
        quiet=2,
        stripdir=str(root),
        # By its content and unchecked: the times of files in the zip mean nothing.
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def _write_zip(output: Path, root: Path, files: Sequence[Path]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, content in _entries(root, files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            made.writestr(entry, content)


def _entries(root: Path, files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield path.relative_to(root).as_posix(), path.read_bytes()
