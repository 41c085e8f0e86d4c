"""MiMo: Qwen2's decoder, and prediction heads that read the hidden state in front of the embedding."""
