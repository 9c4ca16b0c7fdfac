"""The real payload with operations of torch that kill or stall their process. `BREAK`: NAME=abort|hang|segfault,..."""

import ctypes
import os
import runpy
import sys
import time

import torch


def breaking(what):
    def broken(*args, **kwargs):
        if what == "abort":
            os.abort()
        elif what == "hang":
            time.sleep(600)
        else:
            ctypes.string_at(0)

    return broken


for fault in os.environ["BREAK"].split(","):
    name, what = fault.split("=")
    setattr(torch.nn.functional, name, breaking(what))
sys.argv[0] = os.environ["PAYLOAD"]
runpy.run_path(sys.argv[0], run_name="__main__")
