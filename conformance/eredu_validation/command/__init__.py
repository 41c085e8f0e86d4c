"""The command `eredu validate`."""
