"""Faults of the tests of endurance: a bit of memory that flips, sticks or is reached by two addresses; a product that differs."""

import torch
from fault_kit import CPU, GPU, Operator, nan, operator

I64 = (torch.int64,)
FP32 = (torch.float32,)


def bit_of_a_word(out):
    """One bit of one word, once written, is another one."""
    flat = out.view(-1)
    if flat.numel() > 1000:
        flat[777] ^= 1 << 37
    return out


def stuck_at_one(out):
    flat = out.view(-1)
    if flat.numel() > 1000:
        flat[500:510] |= 1 << 3
    return out


def aliased(out):
    """The upper half of the memory is the lower half once more: a line of the address is stuck."""
    half = out.numel() // 2
    if half > 500:
        out[:half] = out[half : 2 * half]
    return out


def last_bit_of_one_element(out):
    """The smallest difference that two products can have."""
    flat = out.view(-1).view({2: torch.int16, 4: torch.int32}[out.element_size()])
    flat[flat.numel() // 3] ^= 1
    return out


class Once(Operator):
    """The fault strikes one call alone: nothing may average it away."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.hits:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def once(*args, **kwargs):
    return lambda: Once(*args, **kwargs)


FAULTS = [
    ("memory: one bit flips once", "memory", CPU, once("aten::fill_", bit_of_a_word, I64, skip=6)),
    ("memory: a bit is stuck at one", "memory", CPU, operator("aten::fill_", stuck_at_one, I64)),
    ("memory: a line of the address is stuck", "memory", CPU, once("aten::arange", aliased, I64)),
    ("memory: one bit flips under addresses", "memory", GPU, once("aten::mul_", bit_of_a_word, I64)),
    ("memory: one bit flips in the complement", "memory", CPU, once("aten::bitwise_not_", bit_of_a_word, I64)),
    (
        "products: the last bit of one element, once",
        "products",
        CPU,
        once("aten::mm", last_bit_of_one_element, FP32, skip=9),
    ),
    ("products: one NaN, once", "products", CPU, once("aten::mm", nan, FP32, skip=3)),
    ("products: the first is not written", "products", CPU, once("aten::mm", unwritten=True, skip=0)),
    (
        "products: another GPU is as wrong",
        "products",
        GPU,
        once("aten::mm", last_bit_of_one_element, (torch.bfloat16,), skip=2),
    ),
    ("memory: one bit flips on a Mac", "memory", "mps", once("aten::copy_", bit_of_a_word, I64, skip=9)),
    (
        "products: the last bit on a Mac, once",
        "products",
        "mps",
        once("aten::mm", last_bit_of_one_element, (torch.float16,), skip=4),
    ),
    (
        "products: one of three GPUs is wrong once",
        "products-together",
        GPU,
        once("aten::mm", last_bit_of_one_element, (torch.bfloat16,), skip=7),
    ),
]
