"""The data set of the DataLoader measurement, in a file of its own, so that spawned workers can import it.

An item costs about what a small photograph costs: its bytes are unpacked (zlib here, which every Python has, in place
of a JPEG), made a tensor, cropped, flipped and normalised.
"""

import random
import zlib

import torch

SIDE, CROP = 256, 224


class Photographs(object):
    """`length` images, all unpacked from the same few packed ones."""

    def __init__(self, length, side=SIDE, crop=CROP):
        self.length, self.side, self.crop = length, side, crop
        generator = torch.Generator()
        generator.manual_seed(1)
        steps = torch.arange(side).float() / side * 6
        waves = torch.sin(steps).reshape(1, -1, 1) + torch.cos(steps).reshape(1, 1, -1)
        noise = torch.randint(0, 24, (3, side, side), generator=generator)
        image = ((waves + 2) * 50 + noise.float()).clamp(0, 255).to(torch.uint8)
        self.packed = zlib.compress(bytes(bytearray(image.reshape(-1).tolist())), 6)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        data = bytearray(zlib.decompress(self.packed))
        image = _tensor(data).reshape(3, self.side, self.side)
        top, left = random.randint(0, self.side - self.crop), random.randint(0, self.side - self.crop)
        image = image[:, top: top + self.crop, left: left + self.crop]
        if index % 2:
            image = image.flip(2)
        return image.float().sub_(118.0).div_(60.0), index % 10


def _tensor(data):
    if hasattr(torch, "frombuffer"):
        return torch.frombuffer(data, dtype=torch.uint8)
    return torch.ByteTensor(torch.ByteStorage.from_buffer(data))
