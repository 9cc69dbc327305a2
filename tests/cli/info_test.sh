#!/usr/bin/env bash
# fulcrum-info tells the version, the build, the machine and the devices, as text and as JSON.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

info=$bin/fulcrum-info
"$info" >out 2>err || fail "fulcrum-info"
for word in version commit build processor threads memory oneDNN "instruction set" Eigen cuda; do
    grep -q "$word" out || fail "fulcrum-info does not tell of $word"
done
"$info" --json >out 2>err || fail "fulcrum-info --json"
if command -v python3 >/dev/null; then
    python3 -c 'import json; d = json.load(open("out")); d["fulcrum"]["version"], d["cpu"]["oneDNN"], d["cuda"]["devices"]' ||
        fail "fulcrum-info --json is no JSON of the promised form"
fi
OMP_NUM_THREADS=3 "$info" | grep -qE "threads +3$" || fail "OMP_NUM_THREADS is not seen"
code=0
"$info" --what >out 2>err || code=$?
[[ $code == 2 && $(wc -l <err) == 1 ]] || fail "an unknown option"
