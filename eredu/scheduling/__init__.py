"""The one scheduling path: request life cycles, resolution, lookahead and fair turns. Portable."""
