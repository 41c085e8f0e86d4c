"""The work plan, and the processes and ranks that carry it out."""
