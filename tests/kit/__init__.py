"""Machines made of files: fake nvidia-smi programs, a stub libcuda that real torch loads, trees that stand for "/"."""

from __future__ import annotations

from tests.kit.libcuda import stub_libcuda
from tests.kit.smi import SMI_KINDS, Card, fake_smi
from tests.kit.tree import TREE_KINDS, Tree, machine_tree, tree_host

__all__ = ["SMI_KINDS", "TREE_KINDS", "Card", "Tree", "fake_smi", "machine_tree", "stub_libcuda", "tree_host"]
