"""The profile of a step: whose time it is."""

import cProfile
import pstats

from bench.step_profile import layer_of, layer_shares, own_times
from headgate.base.encoding import content_hash


def test_a_file_belongs_to_a_layer_or_a_library() -> None:
    assert layer_of("/home/me/headgate/src/headgate/flow/step.py") == "flow"
    assert layer_of("/venv/lib/python3.11/site-packages/asyncpg/connection.py") == "asyncpg"
    assert layer_of("/venv/lib/python3.11/site-packages/headgate/model/job.py") == "model"
    assert layer_of("/home/me/headgate/bench/workload.py") == "benchmark"
    assert layer_of("/usr/lib/python3.11/asyncio/tasks.py") == "python"


def test_the_time_of_a_built_in_counts_to_the_layer_that_calls_it() -> None:
    # Given a function of the base whose time is almost all in built-ins
    profiler = cProfile.Profile()
    text = "x" * 1_000_000

    # When it is profiled
    profiler.enable()
    for _ in range(20):
        content_hash(text)
    profiler.disable()

    # Then the time is that of its layer, and the shares are the whole
    shares = layer_shares(own_times(pstats.Stats(profiler)))
    assert shares["base"] > 0.9
    assert abs(sum(shares.values()) - 1) < 1e-9
