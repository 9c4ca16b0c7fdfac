"""envcheck: says what is wrong with a PyTorch installation, and how to mend it."""

__version__ = "0.1.0"
