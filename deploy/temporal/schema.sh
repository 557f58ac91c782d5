#!/bin/sh
# Creates or updates Temporal's two databases. Each step may be run again.
set -eu
schema=/etc/temporal/schema/postgresql/v12
for database in temporal:temporal temporal_visibility:visibility; do
  name=${database%%:*}
  tool() {
    temporal-sql-tool --plugin postgres12 --endpoint postgresql --port 5432 --user temporal --database "$name" "$@"
  }
  tool create-database
  tool setup-schema --version 0.0
  tool update-schema --schema-dir "$schema/${database##*:}/versioned"
done
