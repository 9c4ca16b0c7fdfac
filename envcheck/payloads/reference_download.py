"""Lets torchvision download CIFAR-10 into a folder: reference_download.py FOLDER. Only run when it is asked for."""
import json
import os
import sys
import threading

ARCHIVE = "cifar-10-python.tar.gz"


def emit(**values):
    print("\n@envcheck@ " + json.dumps(values), flush=True)


def watch(path, ended):
    """Tells how much is there. why: torchvision's own bar is for a terminal, and this is no terminal."""
    while not ended.wait(0.5):
        if os.path.isfile(path):
            emit(stage="download", bytes=os.path.getsize(path))


def main():
    from torchvision.datasets import CIFAR10

    folder, ended = sys.argv[1], threading.Event()
    thread = threading.Thread(target=watch, args=(os.path.join(folder, ARCHIVE), ended), daemon=True)
    thread.start()
    try:
        CIFAR10(folder, download=True)
    finally:
        ended.set()
        thread.join()
    emit(stage="done")


if __name__ == "__main__":
    main()
