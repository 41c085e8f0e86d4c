"""The reference engine: plain and speculative decoding in float64, slow and obvious."""
