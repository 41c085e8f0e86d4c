"""Step 3.5: full attention and windows in turn, experts, and prediction heads with output projections of their own."""
