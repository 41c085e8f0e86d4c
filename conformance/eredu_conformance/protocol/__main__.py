"""`python -m eredu_conformance.protocol package.module:Factory`: serve a Python subject on stdin and stdout."""

import sys

from eredu_conformance.protocol.serve import serve_stdio, subject_named

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m eredu_conformance.protocol package.module:Factory")
    sys.exit(serve_stdio(subject_named(sys.argv[1])))
