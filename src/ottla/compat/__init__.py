"""Other libraries' names over our client: change the import, and a program written for them runs on Ottla."""
