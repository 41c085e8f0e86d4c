"""Recipe of the tiny checkpoints that eredu ships: tokenizer, data, models in torch, training, export.

Modules that train import torch, which is no dependency of any kind: install it by hand where you want to train.
"""
