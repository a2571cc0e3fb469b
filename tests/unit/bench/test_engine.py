"""The benchmark of the engine runs, and its programs do what is asked of them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measures import jobs_rate, pickup_ms
from bench.peer_scripts.protocol import SHIPPED, STEPS, TUNED
from bench.queue_program import ROOT, ProgramFailed, QueueProgram, python_program

JOBS = 50


def program(script: str, folder: Path) -> QueueProgram:
    return python_program(script, script, f"sqlite:///{folder}/bench.db", folder)


@pytest.mark.thorough
def test_one_part_runs_and_ends_with_a_line_for_machines() -> None:
    command = [sys.executable, "-m", "bench.engine", "--only", "version", "--quick"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    told = json.loads(done.stdout)
    assert told["bench"] == "engine"
    assert 0 < told["figures"]["bare_version_cpu_s"] < told["figures"]["version_cpu_s"]


@pytest.mark.parametrize(
    "figure",
    [
        *("submit_ratio", "submit_many_per_s", "jobs_ratio", "steps_ratio", "shipped_ratio"),
        *("recovery_s", "version_cpu_s", "scale_out_", "claim_cost_ratio"),
        *("list_failed_ms", "dead_tuple_share"),
    ],
)
def test_the_figures_have_the_names_that_others_look_for(figure: str) -> None:
    # To run all parts would take minutes; pick-up is measured below.
    sources = [path.read_text("utf-8") for path in (ROOT / "bench").glob("*.py")]
    named = re.compile(rf"report\.add\(\s*f?\"(\{{[a-z.]+\}})?{figure}[\"{{]")
    assert any(named.search(source) for source in sources), figure


@pytest.mark.thorough
@pytest.mark.parametrize("script", ["headgate_peer", "bare_peer"])
def test_a_program_submits_and_works_in_processes_of_its_own(script: str, tmp_path: Path) -> None:
    measured = program(script, tmp_path)
    with measured.client() as client:
        waits = pickup_ms(measured, client, 2, SHIPPED)
        whole = jobs_rate(measured, client, JOBS, TUNED)
        steps = jobs_rate(measured, client, 2, TUNED, kind=STEPS)

    assert len(waits) == 2 and min(waits) > 0
    assert whole.per_s > 0 and steps.per_s > 0
    # The bare driver does not tell how many it ran.
    assert list(whole.ran) == ([JOBS] if script == "headgate_peer" else [])


def test_a_program_that_dies_says_why(tmp_path: Path) -> None:
    broken = QueueProgram("broken", [sys.executable, "-c", "1 / 0"], "sqlite:///x.db", tmp_path)
    with broken.client() as client, pytest.raises(ProgramFailed, match="ZeroDivisionError"):
        client.setup()
