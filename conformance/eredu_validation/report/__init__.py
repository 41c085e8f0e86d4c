"""The report as one HTML file, with its tables and plots."""
