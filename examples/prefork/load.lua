-- SPDX-License-Identifier: MIT
-- The requests of wrk. For the last seconds it only waits for answers, so that it has all of them
-- when it ends. wrk ... -s load.lua URL -- SECONDS [large]
local requests, last, at = {}, nil, 0

function init(args)
	for i = 1, 200 do
		local path = "/"
		if i % 8 == 0 then path = "/missing" end
		if i % 20 == 0 then path = "/old" end
		if i == 100 and args[2] == "large" then path = "/large" end
		requests[i] = wrk.format("GET", path)
	end
	last = os.time() + tonumber(args[1])
end

-- Returns the delay before each request, in milliseconds.
function delay()
	return os.time() < last and 0 or 1000000
end

function request()
	at = at % #requests + 1
	return requests[at]
end

function done(summary)
	io.write(string.format("answers %d\nbytes %d\nrefused %d\n", summary.requests, summary.bytes,
		summary.errors.status))
end
