"""File formats of arrays and tables: .npy, .mat, .pt, JSON, pickles, text tables. No knowledge of any dataset."""
