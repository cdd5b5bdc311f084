-- 1: the key may only read; NULL: it may write too. Neither takes room in a row, so access can be changed in a full database.
ALTER TABLE keys ADD COLUMN read_only INTEGER CHECK (read_only = 1);
