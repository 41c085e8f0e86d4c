"""The console command from its first moment to its last: signals, imports, exit status.

Nothing is imported here but what Python itself brings, so that a Ctrl-C while the rest is imported ends the process as
one behind it does: with status 130, and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # SIGINT is Python's own


def run() -> None:
    """Entry point of the console script."""
    came: list[int] = []

    def leave(number: int, _: FrameType | None) -> NoReturn:
        os._exit(128 + number)  # nothing is begun yet

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise KeyboardInterrupt

    def end(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise SystemExit(128 + number)  # and not at once: children are ended and folders removed on the way out

    _answer(leave, signal.SIGINT, *ENDING_SIGNALS)
    from eredu.commands.main import finish_output, main  # noqa: PLC0415 (under the handlers above)

    if hasattr(signal, "SIGPIPE"):
        # A reader that has read enough (`| head`) ends this process silently, as it ends every other filter.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _answer(interrupt, signal.SIGINT)
    _answer(end, *ENDING_SIGNALS)
    try:
        status = finish_output(main())
    except (KeyboardInterrupt, SystemExit):  # between the commands' own handling and here
        status = 1
    for number in (signal.SIGINT, *ENDING_SIGNALS):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + came[0] if came else status)


def _answer(handler: signal._HANDLER, *numbers: int) -> None:
    """Handle signals, but for those that this process was started to ignore (`nohup`)."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
