# SPDX-License-Identifier: MIT
"""What upstream's tests of multi-process mode give with the drop-in: one line for each."""

SAME = ""  # passes
OF_FILES = "it looks for a file of each process, and there is one file of all"
OF_SHARES = "it looks for the share of this process in a counter, and get() returns the total"
OF_REMOVAL = "it looks for the warning that removal does nothing, and series are removed"

# Upstream's tests of multi-process mode: what they find here. SAME: they pass.
EXPECTED = {
    "TestMultiProcessDeprecation::test_deprecation_warning": SAME,
    "TestMultiProcessDeprecation::test_mark_process_dead_respects_lowercase": SAME,
    "TestMultiProcess::test_child_name_is_built_once_with_namespace_subsystem_unit": SAME,
    "TestMultiProcess::test_child_preserves_parent_context_for_subclasses": SAME,
    "TestMultiProcess::test_collect": SAME,
    "TestMultiProcess::test_collect_histogram_ordering": SAME,
    "TestMultiProcess::test_collect_preserves_help": SAME,
    "TestMultiProcess::test_counter_across_forks": OF_SHARES,
    "TestMultiProcess::test_counter_adds": SAME,
    "TestMultiProcess::test_gauge_all": SAME,
    "TestMultiProcess::test_gauge_liveall": SAME,
    "TestMultiProcess::test_gauge_livemax": SAME,
    "TestMultiProcess::test_gauge_livemin": SAME,
    "TestMultiProcess::test_gauge_livemostrecent": SAME,
    "TestMultiProcess::test_gauge_livesum": SAME,
    "TestMultiProcess::test_gauge_max": SAME,
    "TestMultiProcess::test_gauge_min": SAME,
    "TestMultiProcess::test_gauge_mostrecent": SAME,
    "TestMultiProcess::test_gauge_sum": SAME,
    "TestMultiProcess::test_histogram_adds": SAME,
    "TestMultiProcess::test_initialization_detects_pid_change": OF_FILES,
    "TestMultiProcess::test_merge_no_accumulate": OF_FILES,
    "TestMultiProcess::test_missing_gauge_file_during_merge": SAME,
    "TestMultiProcess::test_namespace_subsystem": SAME,
    "TestMultiProcess::test_remove_clear_warning": OF_REMOVAL,
    "TestMultiProcess::test_restrict": SAME,
    "TestMultiProcess::test_summary_adds": SAME,
    "TestMmapedDict::test_corruption_detected": SAME,
    "TestMmapedDict::test_expansion": SAME,
    "TestMmapedDict::test_multi_expansion": SAME,
    "TestMmapedDict::test_process_restart": SAME,
    "TestUnsetEnv::test_file_syncpath": SAME,
    "TestUnsetEnv::test_unset_syncdir_env": SAME,
}

# Those that the oldest release does not have.
NEWER = {
    "TestMultiProcess::test_child_name_is_built_once_with_namespace_subsystem_unit",
    "TestMultiProcess::test_child_preserves_parent_context_for_subclasses",
    "TestMultiProcess::test_collect_histogram_ordering",
    "TestMultiProcess::test_gauge_livemostrecent",
    "TestMultiProcess::test_gauge_mostrecent",
    "TestMultiProcess::test_remove_clear_warning",
    "TestMultiProcess::test_restrict",
}

# Tests of the whole suite that pass in upstream's multi-process mode, but not here.
OTHERS = {
    "test_core.TestHistogram::test_histogram": "it observes infinity, which is not counted",
}
