"""The stages of `probe_env.py`, one module a subject; imported by it alone, in the Python under test.

Each public function is one stage: it takes what the stage needs and returns a dict of plain values. Python 3.6
syntax, standard library only, no work at import time. The module names must not be those of real modules.
"""
