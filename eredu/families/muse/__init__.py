"""Muse-Glimmer: windows and full attention; a separate block drafter, which eredu does not run yet."""
