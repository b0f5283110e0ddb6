# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# models.sh - the protocols as models, all of whose states are looked at.

# test_models MODEL...: all of them, or these.
test_models()
{
	require "${for_models[@]}"
	mkdir -p "$build" && : >"$results"
	say 'models'
	python3 tests/models/run.py "$build/models" "$@" | tee -a "$results" ||
		record FAIL 'models' 'the run broke, or a result is not as it should be'
	summary
}
