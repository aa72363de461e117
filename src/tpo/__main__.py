"""`python -m tpo`: the command line, where its script is not on the path."""

import sys

from tpo.cli import main

if __name__ == "__main__":
    sys.exit(main())
