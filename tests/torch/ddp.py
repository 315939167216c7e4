#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ddp.py - train a small model with PyTorch's DistributedDataParallel over MPI.

    fabemu run --set combine_order=port -- mpirun -np 4 python3 ddp.py [STEPS]

Each process computes the gradients of its own samples on the CPU, and PyTorch averages them by
MPI_Allreduce. Rank 0 prints the loss of the last step with all its bits. With --set
combine_order=port, these bits are the same in every run, also if links fail during the run."""
import struct
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 64


def train(steps):
    rank = torch.distributed.get_rank()
    torch.manual_seed(1)  # the same model on all ranks
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1000 + rank)  # other samples on each rank
    inputs = torch.randn(SAMPLES, 64)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
    loss = loss.detach().reshape(1)
    torch.distributed.all_reduce(loss)
    if rank == 0:
        bits = struct.unpack("<I", struct.pack("<f", loss.item()))[0]
        print(f"loss {loss.item():.6f} {bits:#010x} after {steps} steps", flush=True)


def main():
    torch.set_num_threads(1)
    torch.distributed.init_process_group("mpi")
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
