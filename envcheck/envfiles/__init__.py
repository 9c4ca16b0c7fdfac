"""Files that rebuild an environment: written from a recommendation or from what is installed, and checked against it."""
