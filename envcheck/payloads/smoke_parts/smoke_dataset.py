"""The data set of the DataLoader test, in a file of its own.

Where workers are spawned (Windows, macOS, and by default on Linux from Python 3.14) they import the class by module
and name; a class of the main script would not be found there when that script was run by exec.
"""

import os

import torch

ITEMS = 26
SIZE = 96


def sample(index):
    """Item `index`: whole numbers that follow from the index alone, so that the receiver can compute them too."""
    steps = torch.arange(SIZE, dtype=torch.int64)
    return (steps * 7919 + index * 104729) % 65521


class Numbers(object):
    """A map-style data set that also says which worker, in which process, made the item."""

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        return index, -1 if info is None else info.id, os.getpid(), sample(index)
