"""Another engine as the subject of a validation, asked through the protocol of the conformance suite."""
