"""What decides about equal bits here: the settings, and operations tried one by one with deterministic algorithms on.

    reference_audit.py [--device D]
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)
import reference_checks as checks


def operations(torch, device):
    """(name, function that computes and returns tensors to compare) of operations known for having had no
    deterministic implementation on some device."""
    F = torch.nn.functional

    def made(*shape):
        count = 1
        for size in shape:
            count *= size
        return (((torch.arange(count) * 7919) % 1009).float() / 1009 - 0.5).reshape(shape).to(device).requires_grad_(True)

    def back(call, *shape):
        x = made(*shape)
        out = call(x)
        out.sum().backward()
        return out, x.grad

    index = ((torch.arange(4096) * 31) % 17).to(device)
    words = ((torch.arange(64) * 7) % 10).reshape(4, 16).to(device)
    grid = (((torch.arange(2 * 8 * 8 * 2) * 37) % 101).float() / 50 - 1).reshape(2, 8, 8, 2).to(device)
    yield "index_add_", lambda: (torch.zeros(17, device=device).index_add_(0, index, made(4096).detach()),)
    yield "scatter_add_", lambda: (torch.zeros(17, device=device).scatter_add_(0, index, made(4096).detach()),)
    yield "scatter_reduce prod", lambda: (torch.ones(17, device=device).scatter_reduce_(0, index, made(4096).detach() + 1, "prod"),)
    yield "index_put_ accumulate", lambda: (torch.zeros(17, device=device).index_put_((index,), made(4096).detach(), accumulate=True),)
    yield "put_ accumulate", lambda: (torch.zeros(17, device=device).put_(index, made(4096).detach(), accumulate=True),)
    yield "bincount with weights", lambda: (torch.bincount(index, weights=made(4096).detach()),)
    yield "histc", lambda: (torch.histc(made(4096).detach(), 10),)
    yield "cumsum", lambda: back(lambda x: x.cumsum(0), 4096)
    yield "median with indices", lambda: tuple(made(64, 65).detach().median(1))
    yield "embedding backward", lambda: back(lambda w: F.embedding(words, w), 10, 8)
    yield "embedding_bag max backward", lambda: back(lambda w: F.embedding_bag(words, w, mode="max"), 10, 8)
    yield "interpolate bilinear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 2, 3, 8, 8)
    yield "interpolate bicubic backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 2, 3, 8, 8)
    yield "interpolate linear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), 2, 3, 8)
    yield "interpolate trilinear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), 2, 3, 4, 4, 4)
    yield "grid_sample backward", lambda: back(lambda x: F.grid_sample(x, grid, align_corners=False), 2, 3, 8, 8)
    yield "adaptive_avg_pool2d backward", lambda: back(lambda x: F.adaptive_avg_pool2d(x, 3), 2, 3, 8, 8)
    yield "adaptive_max_pool2d backward", lambda: back(lambda x: F.adaptive_max_pool2d(x, 3), 2, 3, 8, 8)
    yield "avg_pool3d backward", lambda: back(lambda x: F.avg_pool3d(x, 3, 1), 2, 3, 5, 5, 5)
    yield "max_pool3d backward", lambda: back(lambda x: F.max_pool3d(x, 2), 2, 3, 6, 6, 6)
    yield "fractional_max_pool2d backward", lambda: back(lambda x: F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=torch.full((2, 3, 2), 0.3, device=device)), 2, 3, 8, 8)
    yield "reflection pad backward", lambda: back(lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), 2, 3, 8, 8)
    yield "replication pad backward", lambda: back(lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"), 2, 3, 8, 8)
    yield "ctc_loss backward", lambda: back(lambda x: F.ctc_loss(x.log_softmax(2), words[:, :6] % 9 + 1, (20,) * 4, (6,) * 4), 20, 4, 10)
    yield "nll_loss 2d backward", lambda: back(lambda x: F.nll_loss(x.log_softmax(1), words.reshape(1, 8, 8)), 1, 10, 8, 8)
    yield "conv_transpose2d backward", lambda: back(lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 3, 3, device=device)), 2, 3, 8, 8)
    yield "max_unpool2d backward", lambda: back(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), kernel_size=2), 2, 3, 8, 8)
    yield "scaled_dot_product_attention backward", lambda: back(lambda x: F.scaled_dot_product_attention(x, x, x), 2, 4, 16, 8)


def attempt(torch, call):
    """("deterministic" | "refused" | "differs" | "unavailable", words)."""
    torch.use_deterministic_algorithms(True)
    try:
        first = call()
        for _ in range(4):
            again = call()
            if any(not torch.equal(a.detach(), b.detach()) for a, b in zip(first, again)):
                return "differs", "five runs gave different bits although deterministic algorithms are on"
        return "deterministic", ""
    except RuntimeError as error:
        words = str(error).splitlines()[0][:200]
        return ("refused" if "deterministic" in str(error) else "unavailable"), words
    except (AttributeError, NotImplementedError, TypeError) as error:
        return "unavailable", str(error).splitlines()[0][:200]
    finally:
        torch.use_deterministic_algorithms(False)


def main():
    parser = argparse.ArgumentParser(prog="reference_audit.py")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    checks.begin("import torch")
    import torch

    run = checks.Run(checks.parse(["machine", "--device", options.device]))
    checks.emit("import torch", version=torch.__version__)
    checks.emit("machine", **checks.machine(run))
    for name, call in operations(torch, run.device):
        checks.begin(name)
        status, words = attempt(torch, call)
        checks.emit(name, operation=name, status=status, text=words)
    checks.emit("done")


if __name__ == "__main__":
    main()
