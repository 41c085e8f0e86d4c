"""Gemma 3 and 4: sliding windows with full attention in between; separate assistants, which eredu does not run yet."""
