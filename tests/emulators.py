"""AWS-compatible servers for the tests, on loopback, from an environment of their own.

Two different ones, because each is lenient in other places. Both keep everything in memory, and
`make` installs them into `.venv-aws`, since they pin the version of a library that we need newer.
"""

import os
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.processes import ROOT
from tests.servers import ServerError, refuse_if_unwanted, unused_port

#: The number of this test process among those of a run: in what they share, it has names and an
#: account of its own.
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

_START_S_MAX = 60.0
_LOOK_S = 0.05
_STOP_S_MAX = 10.0
#: What any AWS client wants to know; the emulators accept everything.
CREDENTIALS = {
    # MiniStack takes twelve digits for an account.
    "AWS_ACCESS_KEY_ID": f"{PROCESS:012}",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
}


def program(name: str) -> Path:
    """A program of the emulators' environment."""
    path = ROOT / ".venv-aws" / "bin" / name
    if not path.exists():
        raise ServerError(f"{path} is missing: run `make .venv/.ok`")
    return path


@contextmanager
def ministack(**environment: str) -> Iterator[str]:
    """Start MiniStack (SQS, DynamoDB, Lambda and more); yields its address."""
    port = unused_port()
    environment = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "LAMBDA_EXECUTOR": "local",
        **environment,
    }
    with _served(
        [str(program("ministack"))], port, health="/_ministack/health", environment=environment
    ) as address:
        yield address


@contextmanager
def moto() -> Iterator[str]:
    """Start Moto (SQS and DynamoDB); yields its address."""
    port = unused_port()
    command = [str(program("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with _served(command, port, health="/moto-api/data.json", environment={}) as address:
        yield address


@contextmanager
def _served(
    command: list[str], port: int, *, health: str, environment: Mapping[str, str]
) -> Iterator[str]:
    refuse_if_unwanted()
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="headgate-aws-") as home:
        output_path = Path(home) / "output.log"
        with output_path.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=home,
                env={**os.environ, "HOME": home, **CREDENTIALS, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _wait_until_healthy(process, address + health, output_path)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_healthy(process: subprocess.Popen[bytes], url: str, output: Path) -> None:
    ends = time.monotonic() + _START_S_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                answer.read()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > ends:
                printed = output.read_text(encoding="utf-8", errors="replace")
                raise ServerError(f"{url} does not answer: {error}\n{printed}") from error
            time.sleep(_LOOK_S)
