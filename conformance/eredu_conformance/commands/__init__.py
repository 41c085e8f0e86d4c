"""The commands `eredu conformance`, `eredu spec` and `eredu trace`, which the program finds by their entry points."""
