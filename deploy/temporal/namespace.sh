#!/bin/sh
# Creates the namespace of Countersign's sessions. Closed ones can be looked up
# for 30 days; live ones never end by themselves.
set -eu
if temporal operator namespace describe --namespace countersign >/dev/null 2>&1; then
  exit 0
fi
temporal operator namespace create --namespace countersign --retention 720h
