"""Tokenizers, fingerprints, streaming text and stops. Portable."""
