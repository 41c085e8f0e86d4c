"""One file per model family: its head or assistant, its tensor names, its capture points."""
