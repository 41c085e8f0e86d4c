"""Signals that end a command, and what answers them. Imports nothing but what Python itself brings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, `kill`, and a closed terminal."""


def answer(handler: signal._HANDLER, *numbers: int) -> None:
    """Handle signals, but for those that this process was started to ignore (`nohup`)."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def leave(number: int, _: FrameType | None) -> NoReturn:
    """End the process as the signal comes."""
    os._exit(128 + number)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside, a signal ends the process as it comes: for work that may be left at any moment, and waits for threads."""
    before = [(number, signal.getsignal(number)) for number in ENDING]
    answer(leave, *ENDING)
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
