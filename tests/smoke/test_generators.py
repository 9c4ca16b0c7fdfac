"""The reference generators against published values."""

from __future__ import annotations

import importlib.util

from envcheck.smoke import PAYLOAD

SPEC = importlib.util.spec_from_file_location(
    "smoke_generators", PAYLOAD.parent / "smoke_parts" / "smoke_generators.py"
)
generators = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generators)


def test_philox_gives_the_known_answers_of_random123() -> None:
    # kat_vectors of the Random123 distribution.
    ones = 0xFFFFFFFF
    assert generators.philox4x32((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert generators.philox4x32((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert generators.philox4x32(*pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def test_philox_gives_what_gpus_print_after_manual_seed_0() -> None:
    # torch.manual_seed(0); torch.rand(4, device="cuda") prints 0.3990, 0.5167, 0.0249, 0.9401 on every NVIDIA GPU.
    drawn = [generators.philox4x32((0, 0, i, 0), (0, 0))[0] * 2.0**-32 for i in range(4)]
    assert [round(x, 4) for x in drawn] == [0.3990, 0.5167, 0.0249, 0.9401]


def test_mt19937_gives_the_10000th_number_of_the_cxx_standard() -> None:
    # [rand.predef]: the 10000th invocation of a default-constructed mt19937 (seed 5489) is 4123659995.
    assert generators.mt19937(5489, 10000)[-1] == 4123659995
