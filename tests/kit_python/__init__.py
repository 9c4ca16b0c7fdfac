"""Environments made of nothing: virtual environments, torch packages and interpreters with a fault of choice."""
