"""Tigr style: virtual node splitting (Sabet et al. 2018)."""
