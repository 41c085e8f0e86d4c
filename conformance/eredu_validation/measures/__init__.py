"""The measures: what is run on a checkpoint, each beside what it must equal."""
