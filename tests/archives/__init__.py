"""Stores and caches that released versions wrote; files of a later version never replace them."""
