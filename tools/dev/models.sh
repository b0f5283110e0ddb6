# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# models.sh - the protocols as models, all of whose states are looked at.

# check_models ARGUMENT...: of tests/models/run.py.
check_models()
{
	python3 tests/models/run.py "$build/models" "$@" | tee -a "$results" ||
		record FAIL 'models' 'the run broke, or a result is not as it should be'
}

# Those of a second.
test_models_shortly()
{
	say 'models, in short'
	if have spin; then check_models --quick; else record SKIP 'models, in short' 'no spin'; fi
}

# test_models MODEL...: all of them, or these.
test_models()
{
	require "${for_models[@]}"
	mkdir -p "$build" && : >"$results"
	say 'models'
	check_models "$@"
	summary
}
