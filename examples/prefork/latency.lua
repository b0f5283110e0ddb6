-- SPDX-License-Identifier: MIT
-- Prints what latency.py reads: the mean and the 99th percentile of wrk's latencies, in us.
function done(summary, latency)
	local e = summary.errors

	io.write(string.format("answers %d\nfailed %d\nmean %.3f\nP99 %.3f\n", summary.requests,
		e.connect + e.read + e.write + e.status + e.timeout, latency.mean,
		latency:percentile(99)))
end
