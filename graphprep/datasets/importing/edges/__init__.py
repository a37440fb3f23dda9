"""Files of edges, one format a module: text, Parquet, NumPy, MatrixMarket, METIS, DIMACS, PyG."""
