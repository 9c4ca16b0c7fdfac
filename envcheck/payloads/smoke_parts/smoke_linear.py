"""Smoke tests of linear algebra beyond the plain product: large products, Fourier transforms, solvers, sparse, complex.

Solvers are judged by what their answer does (residuals, orthogonality), computed in fp64: two right answers may differ
by much more than rounding.
"""

import math

import torch

from smoke_support import DTYPE, UNIT, compare, exact, fetch, share

U32 = UNIT["fp32"]


# --- large products -------------------------------------------------------------------------------------------------


def matmul_large(ctx):
    """C = A B with whole numbers from -1 to 1, checked by C v = A (B v) (Freivalds), exactly, in fp64 on the CPU.

    A wrong element of C goes unseen only where v is zero, so v holds whole numbers from 1 to 9. Sums of 2048 products
    have a deviation of 30, and 256 (the largest that bf16 surely holds) is more than eight of them away; fp16 holds 2048.
    """
    n = 1024 if ctx.kind == "cpu" else 2048
    done = []
    for precision in ("fp32", "fp16", "bf16"):
        if precision != "fp32" and not _has(ctx, precision):
            continue
        a64, b64 = ctx.integers(-1, 1, n, n), ctx.integers(-1, 1, n, n)
        a, b = a64.to(DTYPE[precision]).to(ctx.device), b64.to(DTYPE[precision]).to(ctx.device)
        v = ctx.integers(1, 9, n, 3)
        out = ctx.poisoned((n, n), DTYPE[precision])
        torch.matmul(a, b, out=out)
        what = "%d x %d product in %s times a vector" % (n, n, precision)
        exact(what, torch.matmul(fetch(out), v), torch.matmul(a64, torch.matmul(b64, v)))
        done.append(precision)
    return "%d x %d in %s" % (n, n, ", ".join(done))


def _has(ctx, precision):
    if ctx.kind == "cpu":
        return False  # emulated on most processors: seconds for nothing
    if ctx.kind == "cuda" and not ctx.hip and precision == "bf16":
        return ctx.backend.get_device_capability(ctx.device)[0] >= 8
    try:
        torch.ones(2, 2, dtype=DTYPE[precision], device=ctx.device)
        return True
    except (RuntimeError, TypeError):
        return False


# --- Fourier --------------------------------------------------------------------------------------------------------


def fft(ctx):
    """Against the defining sum in fp64.

    A transform of size n by butterflies is wrong by at most 7 u log2(n) |y| in the 2-norm (Higham, 24.1); sizes with a
    large prime factor take three transforms of more than twice the size. No element is wrong by more than the norm.
    """
    worst = []
    for n in (64, 60, 97):
        real, imaginary = ctx.normal(3, n).float().double(), ctx.normal(3, n).float().double()
        x64 = torch.complex(real, imaginary)
        x = x64.to(torch.complex64).to(ctx.device)
        angle = -2 * math.pi / n * (torch.arange(n).reshape(-1, 1) * torch.arange(n).reshape(1, -1) % n).double()
        matrix = torch.complex(torch.cos(angle), torch.sin(angle))
        want = torch.matmul(x64, matrix)
        bound = (4 * 7 * U32 * math.log(4 * n, 2) * want.abs().pow(2).sum(1, keepdim=True).sqrt()).expand(3, n)
        ctx.poison_pool((3, n, 2))
        worst.append(compare("fft of %d" % n, torch.fft.fft(x), want, bound, torch.complex64))
        half = n // 2 + 1
        got = torch.fft.rfft(real.float().to(ctx.device))
        worst.append(compare("rfft of %d" % n, got, torch.matmul(torch.complex(real, 0 * real), matrix)[:, :half], bound[:, :half]))
        norm = 4 * 7 * 2 * U32 * math.log(4 * n, 2) * x64.abs().pow(2).sum(1, keepdim=True).sqrt()
        worst.append(compare("fft and back of %d" % n, torch.fft.ifft(torch.fft.fft(x)), x64, norm.expand(3, n)))
    return share(*worst)


# --- solvers --------------------------------------------------------------------------------------------------------


def _regular(ctx, n):
    """A matrix with a condition number of some tens."""
    return (ctx.normal(n, n) / n ** 0.5 + 2.0 * torch.eye(n, dtype=torch.float64)).float().double()


def _sizes(*matrices):
    return [float(m.abs().sum(-1).max()) for m in matrices]


def solve(ctx):
    """Residuals: elimination with pivoting gives the exact solution of a system that is changed by a small multiple of
    sqrt(n) u in practice (Higham, chapter 9: factors do not grow, roundings average out); 10 leaves room.
    """
    n = 60
    a64, b64 = _regular(ctx, n), ctx.normal(n, 4).float().double()
    a, b = a64.float().to(ctx.device), b64.float().to(ctx.device)
    ctx.poison_pool((n, 4))
    x = torch.linalg.solve(a, b)
    big_a, big_x, big_b = _sizes(a64, fetch(x), b64)
    allowed = 10 * n ** 0.5 * U32 * (big_a * big_x + big_b)
    worst = [compare("residual of solve", torch.matmul(a64, fetch(x)), b64, allowed)]
    inverse = fetch(torch.linalg.inv(a))
    allowed = 10 * n ** 0.5 * U32 * big_a * _sizes(inverse)[0]
    worst.append(compare("A times its inverse", torch.matmul(a64, inverse), torch.eye(n, dtype=torch.float64), allowed))
    symmetric64 = (torch.matmul(a64, a64.t()) / 4).float().double()
    symmetric64 = (symmetric64 + symmetric64.t()) / 2
    lower = fetch(torch.linalg.cholesky(symmetric64.float().to(ctx.device)))
    exact("above the diagonal of the Cholesky factor", lower.triu(1), torch.zeros(n, n, dtype=torch.float64))
    # |L L^T - A| <= gamma_(n+1) |L| |L^T| (Higham, 10.3), and A itself was rounded.
    allowed = 4 * (n + 1) * U32 * torch.matmul(lower.abs(), lower.abs().t())
    worst.append(compare("Cholesky factor squared", torch.matmul(lower, lower.t()), symmetric64, allowed))
    return share(*worst)


def svd(ctx):
    """U S V^T = A, orthogonal factors, singular values against fp64: all good to a small multiple of n u |A|."""
    rows, columns = 40, 28
    a64 = ctx.normal(rows, columns).float().double()
    a = a64.float().to(ctx.device)
    u, s, v = [fetch(item) for item in torch.linalg.svd(a, full_matrices=False)]
    want = torch.linalg.svd(a64, full_matrices=False)[1]
    norm = float(want[0])
    slack = 10 * rows * U32
    unit = torch.eye(columns, dtype=torch.float64)
    worst = [
        compare("singular values", s, want, slack * norm),
        compare("U S V^T", torch.matmul(u * s, v), a64, slack * norm),
        compare("U^T U", torch.matmul(u.t(), u), unit, slack),
        compare("V V^T", torch.matmul(v, v.t()), unit, slack),
    ]
    square64 = (a64[:columns] + a64[:columns].t()) / 2
    square64 = square64.float().double()
    values, vectors = [fetch(item) for item in torch.linalg.eigh(square64.float().to(ctx.device))]
    norm = float(torch.linalg.eigh(square64)[0].abs().max())
    worst.append(compare("A x = lambda x", torch.matmul(square64, vectors), vectors * values, slack * norm))
    worst.append(compare("eigenvectors squared", torch.matmul(vectors.t(), vectors), unit, slack))
    q, r = [fetch(item) for item in torch.linalg.qr(a)]
    worst.append(compare("Q R", torch.matmul(q, r), a64, slack * norm * 2))
    worst.append(compare("Q^T Q", torch.matmul(q.t(), q), unit, slack))
    exact("below the diagonal of R", r.tril(-1), torch.zeros_like(r))
    return share(*worst)


# --- sparse and complex ---------------------------------------------------------------------------------------------


def sparse(ctx):
    """Whole numbers: exact in every order of summing, repeated coordinates included."""
    rows, columns, count = 70, 50, 400
    places = torch.stack([ctx.integers(0, rows - 1, count), ctx.integers(0, columns - 1, count)]).long()
    places[:, 1] = places[:, 0]  # at least one place is named twice
    # Above zero, and more in that place than one value can be: what is lost of repeats shows whatever the seed.
    values64 = ctx.integers(1, 9, count)
    values64[:2] = 9
    dense64 = torch.zeros(rows, columns, dtype=torch.float64).index_put_((places[0], places[1]), values64, accumulate=True)
    b64 = ctx.integers(-9, 9, columns, 11)
    b = b64.float().to(ctx.device)
    matrix = torch.sparse_coo_tensor(places.to(ctx.device), values64.float().to(ctx.device), (rows, columns))
    exact("to_dense", matrix.to_dense(), dense64)
    exact("coalesced values, summed", matrix.coalesce().values().sum().reshape(1), values64.sum().reshape(1))
    exact("coordinate format times dense", torch.sparse.mm(matrix.coalesce(), b), torch.matmul(dense64, b64))
    if not hasattr(matrix, "to_sparse_csr"):
        return "exact, coordinate format alone (torch %s)" % torch.__version__
    try:
        compressed = matrix.coalesce().to_sparse_csr()
    except (RuntimeError, NotImplementedError) as error:
        if ctx.kind == "cuda":
            raise
        return "exact, coordinate format alone (%s)" % str(error).splitlines()[0][:80]
    exact("compressed rows times dense", torch.matmul(compressed, b), torch.matmul(dense64, b64))
    return "exact"


def complex_numbers(ctx):
    """Whole real and imaginary parts: products and sums are exact."""
    def gaussian(*shape):
        return torch.complex(ctx.integers(-9, 9, *shape), ctx.integers(-9, 9, *shape))

    a64, b64 = gaussian(33, 40), gaussian(40, 21)
    a, b = a64.to(torch.complex64).to(ctx.device), b64.to(torch.complex64).to(ctx.device)
    ctx.poison_pool((33, 21, 2))
    exact("complex product of matrices", torch.matmul(a, b), torch.matmul(a64, b64), torch.complex64)
    exact("complex product of elements", a[:, :21] * a[:, 19:], a64[:, :21] * a64[:, 19:])
    exact("conjugate transpose", torch.conj(a.t()), torch.conj(a64.t()))
    leaf = a.detach().requires_grad_()
    (leaf * leaf.conj()).real.sum().backward()
    exact("gradient of |z|^2", leaf.grad, 2 * a64)
    return "exact"
