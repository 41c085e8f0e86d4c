"""The toy harness: small models, caches, sources and schedules on the reference's pieces."""
