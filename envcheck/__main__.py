"""`python -m envcheck`."""

import os
import sys

# `-m` puts the current directory in front of the search path: a random.py or torch.py of the user's would break the
# very program that is to find it. envcheck's own modules are found through the package, wherever it lies.
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from envcheck.cli import main

main()
