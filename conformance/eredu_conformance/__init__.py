"""The conformance suite: one set of checked cases that judges any engine of speculative decoding."""
