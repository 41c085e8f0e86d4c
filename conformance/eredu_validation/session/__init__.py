"""One validation from a loaded subject to its result: parts, tolerance, evidence, verdict."""
