"""Lets torchvision download CIFAR-10 into a folder: reference_download.py FOLDER. Only run when it is asked for."""
import json
import sys


def main():
    from torchvision.datasets import CIFAR10

    CIFAR10(sys.argv[1], download=True)
    print("\n@envcheck@ " + json.dumps({"stage": "done"}), flush=True)


if __name__ == "__main__":
    main()
