"""GLM-4.5 to 4.7: full attention, a mixture of experts, and a prediction head behind the last layer."""
