"""The edge to files and terminals: written aside and then renamed, read within bounds, shown as plain text."""
