"""The console command from its first moment to its last: signals, imports, exit status.

Little is imported here but what Python itself brings, so that a Ctrl-C while the rest is imported ends the process as
one behind it does: with status 130, and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from eredu.commands.signals import ENDING, answer, leave


def run() -> None:
    """Entry point of the console script."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise KeyboardInterrupt

    def end(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise SystemExit(128 + number)  # and not at once: children are ended and folders removed on the way out

    answer(leave, *ENDING)  # nothing is begun yet
    from eredu.commands.main import finish_output, main  # noqa: PLC0415 (under the handlers above)

    if hasattr(signal, "SIGPIPE"):
        # A reader that has read enough (`| head`) ends this process silently, as it ends every other filter.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    answer(end, *ENDING)
    answer(interrupt, signal.SIGINT)
    try:
        status = finish_output(main())
    except (KeyboardInterrupt, SystemExit):  # between the commands' own handling and here
        status = 1
    if came:
        sys.stderr.flush()
        os._exit(128 + came[0])  # what is held was let go of on the way here; threads may wait for anything
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(status)
