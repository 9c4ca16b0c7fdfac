"""`envcheck matrix update`: newer releases from the user's package index, kept in the user's cache beside the tables.

The only code in this package that uses the network, and only when that command is run.
"""
