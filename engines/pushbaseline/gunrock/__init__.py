"""Gunrock style: advance - filter - compute over an explicit frontier (Wang et al. 2016)."""
