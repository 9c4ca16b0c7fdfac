"""Both sides of the test of collectives, in a file of its own: the second process is spawned and imports it."""

import datetime

import torch

PATIENCE = datetime.timedelta(seconds=40)


def take_part(address, rank, numbers):
    """One of two processes: (sum over both, what rank 0 broadcast)."""
    import torch.distributed as distributed

    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=PATIENCE)
    try:
        mine = torch.tensor(numbers, dtype=torch.float32)
        distributed.all_reduce(mine)
        sent = torch.arange(1000, dtype=torch.float32) if rank == 0 else torch.full((1000,), float("nan"))
        distributed.broadcast(sent, 0)
        distributed.barrier()
        return mine, sent
    finally:
        distributed.destroy_process_group()


def other(address, numbers, replies):
    """The second process."""
    summed, sent = take_part(address, 1, numbers)
    replies.put((summed.tolist(), sent.tolist()))
