"""One file a source: the rows that it declares and the Reader that fills them."""
