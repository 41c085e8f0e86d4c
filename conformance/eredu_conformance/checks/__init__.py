"""Checks: claims about a subject, each with the rule that it is about, and what it takes to make them.

A kind of check is a package in here with a function `checks()` that returns its `Check`s; `registry` finds it.
"""
