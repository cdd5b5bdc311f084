-- When an operator last changed a key's plan: Unix time in milliseconds, NULL for never. A restore of the database goes by it
-- where a plan was changed before and after.
ALTER TABLE keys ADD COLUMN plan_set_at_ms INTEGER;
