"""Run a Python module in a process that ends when the process that started it does, however that ended.

Run as a script, with a pipe as standard input whose other end the parent holds: `python -P FILE MODULE ARGUMENTS`. The
system closes the parent's end with the parent, killed or not, and on every platform; reading ends then.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading

ENDED_BY_PARENT = 143
"""Exit status of a process whose parent is gone, as if it had been terminated."""


def _follow(descriptor: int) -> None:
    while os.read(descriptor, 1024):
        pass
    os._exit(ENDED_BY_PARENT)


def main() -> None:
    """Run the module that the first argument names, with the others as its own."""
    held = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the module asks nobody
    threading.Thread(target=_follow, args=(held,), daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
