#!/bin/sh
# Runs workerd without Ctrl+C, which reaches a whole group of processes: the command that has started it decides what to end, and when.
trap '' INT
exec "$PETSTORE_WORKERD" "$@"
