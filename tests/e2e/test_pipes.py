"""A reader that has seen enough, such as `head`, ends a command without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import headgate

class Source:
    name = "fake"
    async def read(self, ctx):
        return headgate.Chunk()

app = headgate.App("sqlite:///jobs.db", syncs=[headgate.Sync(name="sync", source=Source())])
"""


@pytest.mark.parametrize(
    "command",
    [
        "job list --json",
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in (
                "openapi",
                "openapi --json",
                "job events {job}",
                "worker --until-idle 2>&1",
            )
        ),
    ],
)
def test_a_closed_pipe_is_no_failure(tmp_path: Path, command: str) -> None:
    (tmp_path / "piped_app.py").write_text(APP, encoding="utf-8")
    ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    environment = {**ours, "HEADGATE_APP": "piped_app:app", "PATH": os.environ["PATH"]}
    headgate = f"{sys.executable} -m headgate"

    def shell(line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    if "{job}" in command:
        submit = shell(f"{headgate} job submit sync --user ada")
        command = command.format(job=submit.stdout.split()[0])

    # `true` reads nothing at all, so that even the first line finds nobody.
    ended = shell(f"{headgate} {command} | true")

    # A list still says which database it has read, and nothing else is said.
    said = [line for line in ended.stderr.splitlines() if not line.startswith("database: ")]
    assert (ended.returncode, said) == (0, [])
