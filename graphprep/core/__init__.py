"""The values that all rooms share: node tables, CSR matrices and what makes and checks them."""
