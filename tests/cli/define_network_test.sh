#!/usr/bin/env bash
# The example of a network of one's own learns and leaves its weights.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$bin/define-network" >out 2>err || fail "define-network"
accuracy=$(sed -n 's/^epoch 3: .*test accuracy \([0-9]*\).*/\1/p' out)
((accuracy >= 30)) || fail "test accuracy $accuracy% after three epochs"
[[ -s network.safetensors ]] || fail "no weights"
