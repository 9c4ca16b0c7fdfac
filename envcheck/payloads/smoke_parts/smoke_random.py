"""Smoke tests of random numbers: repeatable, as published, unbiased."""

import math

import torch

from smoke_generators import mt19937, philox4x32
from smoke_support import Skip, alone, compare, exact, expect, fetch

SEEDS = 0x7FFFFFFF


def _seed(ctx, value):
    # torch.manual_seed seeds the CPU and every GPU; it is what users call.
    torch.manual_seed(value)


def _any_seed(ctx):
    return int(torch.randint(1, SEEDS, (1,), generator=ctx.random))


def repeat(ctx):
    """Seeding twice gives the same numbers, saving and restoring the state too; another seed gives others."""
    first = _any_seed(ctx)
    _seed(ctx, first)
    before = _draw(ctx)
    _seed(ctx, first)
    after = _draw(ctx)
    for name, one, two in zip(NAMES, before, after):
        expect(torch.equal(one, two), "%s differs between two runs with seed %d" % (name, first))
    _seed(ctx, first + 1)
    for name, one, two in zip(NAMES, before, _draw(ctx)):
        expect(not torch.equal(one, two), "%s is the same for two seeds, %d and %d" % (name, first, first + 1))
    generator = torch.Generator(device=ctx.device) if ctx.kind != "mps" else None
    if generator is not None:
        _own_generator(ctx, generator, first)
    return "seed %d" % first


NAMES = ("rand", "randn", "randint", "randperm", "dropout")


def _draw(ctx):
    drawn = (
        torch.rand(1000, device=ctx.device),
        torch.randn(1000, device=ctx.device),
        torch.randint(0, 1 << 20, (1000,), device=ctx.device),
        torch.randperm(1000, device=ctx.device),
        torch.nn.functional.dropout(torch.ones(1000, device=ctx.device), 0.5, True),
    )
    return [item.cpu() for item in drawn]


def _own_generator(ctx, generator, seed):
    generator.manual_seed(seed)
    state = generator.get_state()
    one = torch.rand(100, device=ctx.device, generator=generator).cpu()
    second = torch.rand(100, device=ctx.device, generator=generator).cpu()
    expect(not torch.equal(one, second), "a generator gives the same numbers twice")
    generator.set_state(state)
    two = torch.rand(100, device=ctx.device, generator=generator).cpu()
    expect(torch.equal(one, two), "a generator whose state was restored gives other numbers")


# --- the published algorithms -----------------------------------------------------------------------------------


def known(ctx):
    """The numbers after a seed against the published algorithm, computed here in Python."""
    if ctx.kind == "cpu":
        return _known_mt19937(ctx)
    if ctx.kind == "cuda" and not ctx.hip:
        return _known_philox(ctx)
    raise Skip("the way from counters to elements on this kind of device is not published")


def _known_mt19937(ctx):
    seed = _any_seed(ctx)
    words = mt19937(seed, 1400)
    _seed(ctx, seed)
    # random_(n) takes one 32-bit word modulo n for each element while n is small.
    got = torch.empty(700, dtype=torch.int64).random_(1 << 24)
    exact("random_ with seed %d" % seed, got, torch.tensor([float(w % (1 << 24)) for w in words[:700]], dtype=torch.float64))
    # rand() in fp32 takes the low 24 bits of a word.
    got = torch.rand(700)
    want = torch.tensor([(w & 0xFFFFFF) * 2.0 ** -24 for w in words[700:]], dtype=torch.float64)
    exact("rand with seed %d" % seed, got, want)
    return "MT19937, seed %d" % seed


def _known_philox(ctx):
    """After seeding, element i of a small tensor is drawn by thread i: cuRAND's Philox with the seed as the key, i as
    the sequence (counter words 2 and 3) and 0 as the offset (words 0 and 1); the thread stores the first of its four
    words x as x * 2**-32 + 2**-33. The next call begins at the next counter.
    """
    seed = (_any_seed(ctx) << 20) + 12345  # more than 32 bits, so that both words of the key matter
    key = (seed & 0xFFFFFFFF, seed >> 32)
    _seed(ctx, seed)
    for call in range(2):
        got = torch.rand(200, device=ctx.device)
        words = [philox4x32((call, 0, element, 0), key)[0] for element in range(200)]
        want = torch.tensor([w * 2.0 ** -32 + 2.0 ** -33 for w in words], dtype=torch.float64)
        # Two roundings to fp32 of a number below 1.
        compare("rand, call %d with seed %d" % (call + 1, seed), got, want, 2.0 ** -23)
    return "Philox4x32-10, seed %d" % seed


# --- distributions ----------------------------------------------------------------------------------------------

COUNT = 1 << 18
# Chance of a false alarm: a mean of so many numbers is normal for all purposes, and 7 standard deviations are
# exceeded once in 4e11; the bound for a chi-square sum is that of Laurent and Massart (2000), with exp(-27) = 2e-12.
DEVIATIONS = 7.0
CHI_EXPONENT = 27.0


def distribution(ctx):
    """Means, variances and histograms of what the device draws."""
    _seed(ctx, _any_seed(ctx))
    _uniform(ctx)
    _normal(ctx)
    _whole(ctx)
    _bernoulli(ctx)
    _permutation(ctx)
    return "%d numbers each" % COUNT


def _near(what, got, want, deviation):
    expect(abs(got - want) <= DEVIATIONS * deviation, "%s is %.6g, expected %.6g +- %.2g" % (what, got, want, DEVIATIONS * deviation))


def _even(what, cells, counts):
    """Pearson's chi-square of counts that should be all the same."""
    want = float(sum(counts)) / cells
    statistic = sum((c - want) ** 2 for c in counts) / want
    freedom = cells - 1
    limit = freedom + 2 * math.sqrt(freedom * CHI_EXPONENT) + 2 * CHI_EXPONENT
    expect(statistic <= limit, "%s: chi-square %.1f of %d cells, at most %.1f expected" % (what, statistic, cells, limit))


def _histogram(cells64, cells):
    return torch.bincount(cells64.long(), minlength=cells).tolist()


def _uniform(ctx):
    ctx.poison_pool((COUNT,))
    _judge_uniform(fetch(torch.rand(COUNT, device=ctx.device)))


@alone
def _judge_uniform(values):
    expect(bool(((values >= 0) & (values < 1)).all()), "rand gave a number outside [0, 1)")
    _near("mean of rand", float(values.mean()), 0.5, (1.0 / 12 / COUNT) ** 0.5)
    # Var of (x - 1/2)^2 is 1/180.
    _near("variance of rand", float(((values - 0.5) ** 2).mean()), 1.0 / 12, (1.0 / 180 / COUNT) ** 0.5)
    _even("rand", 256, _histogram((values * 256).floor(), 256))
    product = (values[1:] - 0.5) * (values[:-1] - 0.5)
    _near("correlation of neighbours of rand", float(product.mean()), 0.0, 1.0 / 12 / COUNT ** 0.5)
    distinct = int(torch.unique(values).numel())
    # 2**18 draws out of 2**24 numbers meet about 2**36 / 2**25 = 2**11 times.
    expect(distinct > COUNT - 4096, "only %d of %d numbers of rand are distinct" % (distinct, COUNT))


def _normal(ctx):
    ctx.poison_pool((COUNT,))
    _judge_normal(fetch(torch.randn(COUNT, device=ctx.device)))


@alone
def _judge_normal(values):
    expect(bool((values.abs() < 12).all()), "randn gave NaN or a number beyond 12 standard deviations")
    root = COUNT ** 0.5
    _near("mean of randn", float(values.mean()), 0.0, 1.0 / root)
    _near("variance of randn", float((values ** 2).mean()), 1.0, 2.0 ** 0.5 / root)
    _near("third moment of randn", float((values ** 3).mean()), 0.0, 15.0 ** 0.5 / root)
    _near("fourth moment of randn", float((values ** 4).mean()), 3.0, 96.0 ** 0.5 / root)
    tail = 0.0026997960632601866  # of the normal distribution, beyond 3
    _near("share of randn beyond 3", float((values.abs() > 3).double().mean()), tail, (tail / COUNT) ** 0.5)
    # The distribution function makes them uniform.
    _even("randn", 128, _histogram((torch.erf(values / 2.0 ** 0.5) * 64 + 64).floor().clamp(0, 127), 128))


def _whole(ctx):
    _judge_whole(torch.randint(-50, 50, (COUNT,), device=ctx.device).cpu())


@alone
def _judge_whole(values):
    expect(bool(((values >= -50) & (values < 50)).all()), "randint(-50, 50) gave a number outside")
    _even("randint", 100, _histogram(values + 50, 100))


def _bernoulli(ctx):
    kept = fetch(torch.empty(COUNT, device=ctx.device).bernoulli_(0.3))
    dropped = fetch(torch.nn.functional.dropout(torch.ones(COUNT, device=ctx.device), 0.3, True))
    _judge_bernoulli(kept, dropped)


@alone
def _judge_bernoulli(kept, dropped):
    expect(bool(((kept == 0) | (kept == 1)).all()), "bernoulli_ gave something other than 0 and 1")
    deviation = (0.3 * 0.7 / COUNT) ** 0.5
    _near("mean of bernoulli_(0.3)", float(kept.mean()), 0.3, deviation)
    right = (dropped == 0) | ((dropped - 1 / 0.7).abs() <= 1e-6)
    expect(bool(right.all()), "dropout(0.3) of ones gave something other than 0 and 1/0.7")
    _near("share of zeros of dropout(0.3)", float((dropped == 0).double().mean()), 0.3, deviation)


def _permutation(ctx):
    order = torch.randperm(5000, device=ctx.device).cpu()
    expect(sorted(order.tolist()) == list(range(5000)), "randperm(5000) is no permutation")
    fixed = int((order == torch.arange(5000)).sum())
    # The number of fixed points is Poisson with mean 1: 20 or more happen once in 1e19.
    expect(fixed < 20, "randperm(5000) left %d elements in place" % fixed)
