"""One file per model family: its head or assistant, its tensor names, its capture points.

`loading` is the registry of heads: from a directory, a checkpoint's own or one of heads alone, to heads that run.
"""
