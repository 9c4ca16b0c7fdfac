"""The published random number generators that torch uses, in plain Python: the reference that its numbers are held to."""


def philox4x32(counter, key, rounds=10):
    """Philox4x32 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011)."""
    low = 0xFFFFFFFF
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & low, (left >> 32) ^ c3 ^ k1, left & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return c0, c1, c2, c3


def mt19937(seed, count):
    """The first `count` 32-bit outputs of MT19937 (Matsumoto and Nishimura 1998, seeding of 2002)."""
    low = 0xFFFFFFFF
    state = [seed & low]
    for place in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + place) & low)
    outputs = []
    at = 624
    while len(outputs) < count:
        if at == 624:
            for k in range(624):
                mixed = (state[k] & 0x80000000) | (state[(k + 1) % 624] & 0x7FFFFFFF)
                state[k] = state[(k + 397) % 624] ^ (mixed >> 1) ^ (0x9908B0DF if mixed & 1 else 0)
            at = 0
        y = state[at]
        at += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        outputs.append(y ^ (y >> 18))
    return outputs
