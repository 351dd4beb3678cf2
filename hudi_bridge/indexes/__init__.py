"""What says where a record key may be, and where it cannot be."""
