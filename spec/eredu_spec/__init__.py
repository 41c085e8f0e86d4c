"""The executable specification of lossless multi-token prediction: rules in prose and the one machine they name."""
