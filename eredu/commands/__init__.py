"""One file per subcommand of `eredu`."""
