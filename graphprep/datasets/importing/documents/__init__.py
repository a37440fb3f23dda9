"""Whole graphs in one document: GraphML, GEXF, GML, Pajek, node-link JSON."""
