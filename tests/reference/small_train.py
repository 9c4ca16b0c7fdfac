"""The training program on a smaller made dataset, so that a test of whole runs takes seconds."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "envcheck", "payloads"))
import train_cifar10 as T

make = T.made_dataset
T.made_dataset = lambda: make(512, 200)

if __name__ == "__main__":
    T.main()
