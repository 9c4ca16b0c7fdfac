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

    # Sums of many threads into few places, and of more than one block: small ones would come in one order by chance.
    many, side = (4096, 8) if device.type == "cpu" else (1 << 18, 64)
    index = ((torch.arange(many) * 31) % 17).to(device)
    words = ((torch.arange(64) * 7) % 10).reshape(4, 16).to(device)
    grid = (((torch.arange(2 * side * side * 2) * 37) % 101).float() / 50 - 1).reshape(2, side, side, 2).to(device)
    yield "index_add_", lambda: (torch.zeros(17, device=device).index_add_(0, index, made(many).detach()),)
    yield "scatter_add_", lambda: (torch.zeros(17, device=device).scatter_add_(0, index, made(many).detach()),)
    yield "scatter_reduce prod", lambda: (torch.ones(17, device=device).scatter_reduce_(0, index, made(many).detach() + 1, "prod"),)
    yield "index_put_ accumulate", lambda: (torch.zeros(17, device=device).index_put_((index,), made(many).detach(), accumulate=True),)
    yield "put_ accumulate", lambda: (torch.zeros(17, device=device).put_(index, made(many).detach(), accumulate=True),)
    yield "bincount with weights", lambda: (torch.bincount(index, weights=made(many).detach()),)
    yield "histc", lambda: (torch.histc(made(many).detach(), 10),)
    yield "cumsum", lambda: back(lambda x: x.cumsum(0), many)
    yield "median with indices", lambda: tuple(made(64, 65).detach().median(1))
    yield "embedding backward", lambda: back(lambda w: F.embedding(words, w), 10, 8)
    yield "embedding_bag max backward", lambda: back(lambda w: F.embedding_bag(words, w, mode="max"), 10, 8)
    yield "interpolate bilinear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 2, 3, side, side)
    yield "interpolate bicubic backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 2, 3, side, side)
    yield "interpolate linear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), 2, 3, 8)
    yield "interpolate trilinear backward", lambda: back(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), 2, 3, 4, 4, 4)
    yield "grid_sample backward", lambda: back(lambda x: F.grid_sample(x, grid, align_corners=False), 2, 3, side, side)
    yield "adaptive_avg_pool2d backward", lambda: back(lambda x: F.adaptive_avg_pool2d(x, 3), 2, 3, side, side)
    yield "adaptive_max_pool2d backward", lambda: back(lambda x: F.adaptive_max_pool2d(x, 3), 2, 3, side, side)
    yield "avg_pool3d backward", lambda: back(lambda x: F.avg_pool3d(x, 3, 1), 2, 3, 5, 5, 5)
    yield "max_pool3d backward", lambda: back(lambda x: F.max_pool3d(x, 2), 2, 3, 6, 6, 6)
    yield "fractional_max_pool2d backward", lambda: back(lambda x: F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=torch.full((2, 3, 2), 0.3, device=device)), 2, 3, 8, 8)
    yield "reflection pad backward", lambda: back(lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), 2, 3, side, side)
    yield "replication pad backward", lambda: back(lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"), 2, 3, side, side)
    yield "ctc_loss backward", lambda: back(lambda x: F.ctc_loss(x.log_softmax(2), words[:, :6] % 9 + 1, (20,) * 4, (6,) * 4), 20, 4, 10)
    yield "nll_loss 2d backward", lambda: back(lambda x: F.nll_loss(x.log_softmax(1), words.reshape(1, 8, 8)), 1, 10, 8, 8)
    yield "conv_transpose2d backward", lambda: back(lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 3, 3, device=device)), 2, 3, 8, 8)
    yield "max_unpool2d backward", lambda: back(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), kernel_size=2), 2, 3, 8, 8)
    yield "scaled_dot_product_attention backward", lambda: back(lambda x: F.scaled_dot_product_attention(x, x, x), 2, 4, 16, 8)


def differs(torch, call):
    """Whether five runs give other bits."""
    first = call()
    return any(not torch.equal(a.detach(), b.detach()) for _ in range(4) for a, b in zip(first, call()))


def attempt(torch, call):
    """("deterministic" | "refused" | "differs" | "unavailable", words, whether it differs with deterministic algorithms off)."""
    loose = None
    try:
        loose = differs(torch, call)
    except Exception:  # said by the second try
        pass
    torch.use_deterministic_algorithms(True)
    try:
        if differs(torch, call):
            return "differs", "five runs gave different bits although deterministic algorithms are on", loose
        return "deterministic", "", loose
    except RuntimeError as error:
        words = str(error).splitlines()[0].split(". You can")[0][:200]
        return ("refused" if "deterministic" in str(error) else "unavailable"), words, loose
    except Exception as error:  # whatever this build cannot do is told, and the others are still tried
        return "unavailable", (str(error) or type(error).__name__).splitlines()[0][:200], loose
    finally:
        torch.use_deterministic_algorithms(False)


def habits(torch):
    """What no setting holds: seeds as this process found them, and what DataLoader workers get."""
    import inspect
    import multiprocessing

    seed = torch.initial_seed()  # what nobody has set is 64 bits from the operating system
    told = {"torch": "none" if seed >= 2 ** 40 else "set to %d" % seed, "random": "none"}
    try:
        import numpy

        told["numpy"] = "none" if hasattr(numpy, "random") else "unknown"
    except Exception:  # absent, or one that does not fit this Python
        told["numpy"] = "numpy is not installed"
    try:
        text = inspect.getsource(__import__("torch.utils.data._utils.worker", fromlist=["worker"])._worker_loop)
        names = [name for name, sign in (("torch", "torch.manual_seed("), ("random", "random.seed("), ("numpy", "np_seed")) if sign in text or (name == "numpy" and "numpy" in text)]
        told["seeded by the DataLoader"] = ", ".join(names)
    except Exception:
        told["seeded by the DataLoader"] = None
    told["started by"] = multiprocessing.get_start_method()
    return told


AUTOTUNING = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning", "deterministic", "force_disable_caches")


def autotuning():
    """torch.compile's choices by timing, {} where this torch has no Inductor."""
    try:
        import torch._inductor.config as config
    except Exception:
        return {}
    return {name: bool(getattr(config, name)) for name in AUTOTUNING if hasattr(config, name)}


def main():
    parser = argparse.ArgumentParser(prog="reference_audit.py")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    checks.begin("import torch")
    import torch

    drawn = habits(torch)
    run = checks.Run(checks.parse(["machine", "--device", options.device]))
    checks.emit("import torch", version=torch.__version__)
    told = checks.machine(run)
    told["settings"]["backends.fp32_precision"] = checks.setting("backends.fp32_precision")
    checks.emit("machine", habits=drawn, **told)
    for name, call in operations(torch, run.device):
        checks.begin(name)
        status, words, loose = attempt(torch, call)
        checks.emit(name, operation=name, status=status, text=words, differs_when_off=loose)
    checks.begin("autotuning")
    checks.emit("autotuning", autotuning=autotuning())
    checks.emit("done")


if __name__ == "__main__":
    main()
