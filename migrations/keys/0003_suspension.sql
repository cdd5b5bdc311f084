-- While it is set, every secret of the key is refused. An operator sets it, and removes it again.
ALTER TABLE keys ADD COLUMN suspended_at_ms INTEGER CHECK (suspended_at_ms > 0);
