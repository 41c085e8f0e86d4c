"""DeepSeek V3, R1 and V3.2: latent attention, grouped experts, heads as layers behind the last."""
