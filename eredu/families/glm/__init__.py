"""GLM-4.5 to 5: full, latent or sparse attention, a mixture of experts, and a prediction head behind the last layer."""
