-- When an operator last changed what a key may do: Unix time in milliseconds, NULL for never. A restore of the database
-- goes by it where a key was changed before and after, so whatever changes one of these columns sets its time too.
ALTER TABLE keys ADD COLUMN plan_set_at_ms INTEGER;
ALTER TABLE keys ADD COLUMN name_set_at_ms INTEGER;
ALTER TABLE keys ADD COLUMN expires_set_at_ms INTEGER;
