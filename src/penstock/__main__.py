"""`python -m penstock`: the command `penstock`."""
import sys

from penstock._src.tools.main import main

if __name__ == "__main__":
    sys.exit(main())
