"""`python -m tools.cpu_seconds COMMAND…`: runs it, and tells its time and the CPU time of its tree.

The tree is every process that the command starts, servers and their children included: the kernel
gives this process those whose parents are gone. It tells what a run costs wherever it runs, which
its time on a busy machine does not.
"""

import ctypes
import os
import resource
import subprocess
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
#: How long processes that outlive the command may take to end.
LEFT_S_MAX = 10.0


def main(command: list[str]) -> int:
    """Run the command, print the figures, and return its exit status."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began_s = time.monotonic()
    process = subprocess.Popen(command)
    while True:
        try:
            pid, status = os.wait()
        except KeyboardInterrupt:
            # The command has it too, and ends by it.
            continue
        if pid == process.pid:
            break
    took_s = time.monotonic() - began_s
    left = _reap_left()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    note = "" if left else "; some processes were left running and do not count"
    print(f"==> {took_s:.0f} s, {cpu_s:.0f} CPU seconds of all processes{note}", flush=True)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1


def _reap_left() -> bool:
    """Wait for what the command has left; False if something does not end."""
    ends_s = time.monotonic() + LEFT_S_MAX
    while time.monotonic() < ends_s:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if not pid:
            time.sleep(0.05)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
