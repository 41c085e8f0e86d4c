"""The console command from its first moment to its last: signals, imports, exit status.

Nothing is imported here but what Python itself brings, so that a Ctrl-C while the rest is imported ends the process as
one behind it does: with status 130, and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # SIGINT is Python's own


def run() -> None:
    """Entry point of the console script."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise KeyboardInterrupt

    def end(number: int, _: FrameType | None) -> NoReturn:
        came.append(number)
        raise SystemExit(128 + number)  # and not at once: children are ended and folders removed on the way out

    _answer(_leave, signal.SIGINT, *ENDING_SIGNALS)  # nothing is begun yet
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
    if came:
        sys.stderr.flush()
        os._exit(128 + came[0])  # what is held was let go of on the way here; threads may wait for anything
    for number in (signal.SIGINT, *ENDING_SIGNALS):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(status)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside, a signal ends the process as it comes: for work that may be left at any moment, and waits for threads."""
    numbers = [number for number in (signal.SIGINT, *ENDING_SIGNALS) if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, _leave)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    os._exit(128 + number)


def _answer(handler: signal._HANDLER, *numbers: int) -> None:
    """Handle signals, but for those that this process was started to ignore (`nohup`)."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
