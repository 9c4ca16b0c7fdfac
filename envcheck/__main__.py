"""`python -m envcheck`."""

from envcheck.cli import main

main()
