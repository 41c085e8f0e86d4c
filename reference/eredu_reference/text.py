"""Ids as text, as a function of all ids so far: what a stream has shown is always a prefix of what it will show."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from eredu_reference.requests import Request, TextOptions


def decode(text: TextOptions, ids: Sequence[int], *, finished: bool = False) -> str:
    """Text of all ids; a character whose bytes are not complete yet waits at the end, unless nothing will follow."""
    data = b"".join(text.vocabulary[token] for token in ids)
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, finished)


def completed_stop_string(text: TextOptions | None, ids: Sequence[int]) -> str | None:
    """The stop string that the text of these ids contains, or None."""
    if text is None:
        return None
    shown = decode(text, ids)
    found = [stop for stop in text.stop_strings if stop in shown]
    return min(found, key=shown.index) if found else None


def completed_stop_sequence(request: Request, ids: Sequence[int]) -> tuple[int, ...] | None:
    """The stop sequence of ids that these end with, the longest if there are several, or None."""
    found = [stop for stop in request.stop_sequences if tuple(ids[-len(stop) :]) == stop]
    return max(found, key=len) if found else None


def visible_text(request: Request, ids: Sequence[int], *, finished: bool) -> str:
    """What a caller may see of an output.

    Args:
        request: Whose output it is.
        ids: The whole output so far.
        finished: Whether nothing will follow. Until then the beginning of a stop, and half a character, are held back.
    """
    if request.text is None:
        return ""
    stop = completed_stop_sequence(request, ids)
    shown_ids = ids[: len(ids) - len(stop)] if stop else [token for token in ids if token not in request.eos_ids]
    if not finished and stop is None:
        shown_ids = shown_ids[: len(shown_ids) - _held(shown_ids, request.stop_sequences)]
    text = decode(request.text, shown_ids)
    cut = completed_stop_string(request.text, shown_ids)
    if cut is not None:
        return text[: text.index(cut)]
    if finished:
        return decode(request.text, shown_ids, finished=True)
    return text[: len(text) - _held(text, request.text.stop_strings)]


def _held(shown: Sequence[object], stops: Sequence[Sequence[object]]) -> int:
    """Length of the longest end of `shown` that could be the beginning of one of `stops`."""
    longest = 0
    for stop in stops:
        for length in range(1, len(stop)):
            if length <= len(shown) and list(shown[-length:]) == list(stop[:length]):
                longest = max(longest, length)
    return longest


def publish_text(request: Request, before: Sequence[int], after: Sequence[int], *, finished: bool) -> str:
    """The text that a round adds to what was shown."""
    shown = visible_text(request, before, finished=False)
    return visible_text(request, after, finished=finished)[len(shown) :]
